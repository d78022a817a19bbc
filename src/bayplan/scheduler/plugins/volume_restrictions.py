from bayplan.scheduler.framework.extension_points import Plugin


class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"
