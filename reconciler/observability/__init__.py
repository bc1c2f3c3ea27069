"""How a process is seen from outside: logs, metrics, health, and a clean stop.

Writes to standard error and answers HTTP; reads nothing of the service and decides nothing.
"""
