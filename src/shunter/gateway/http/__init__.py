"""The HTTP gateway: jobs as JSON documents, and what watches a dispatcher."""
