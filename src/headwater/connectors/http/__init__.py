"""Messages over HTTP: to any program that takes a POST, and to Slack, Teams and PagerDuty."""
