"""One strategy or evictor per file, each with its arguments; `bayplan.descheduler.registry` lists them. Plugins do not import plugins."""
