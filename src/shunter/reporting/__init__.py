"""`shunter report`: a flow over the jobs that have ended, which writes a page with plots.

`flow.py` is the flow, `document.py` what it finds out, `plots.py` and `html.py` how that is shown.
"""
