"""What a worker does with the jobs it is given.

The parent process (`host`) talks to dispatchers over `zmq`, `http` or `udp`, and has a `pool` of
child processes, one for each slot, which run the handlers. Children start by importing this
package: it must stay small, and import nothing by itself.
"""
