from bayplan.scheduler.framework.extension_points import Plugin


class InterPodAffinity(Plugin):
    name = "InterPodAffinity"
