"""Controllers that make pods: replica sets, deployments, daemons, stateful sets, jobs and cron jobs; and disruption budgets, which protect them."""
