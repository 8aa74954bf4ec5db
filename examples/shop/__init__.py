"""A shop whose web application hands its work to Shunter."""
