"""Jobs and CronJobs in a live cluster."""
