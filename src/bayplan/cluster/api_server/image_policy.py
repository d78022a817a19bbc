"""The webhook of the admission plugin ImagePolicyWebhook, by its kubeconfig."""

from __future__ import annotations

from pathlib import Path

from bayplan.apiserver.admission.pods.image_policy import ImagePolicyWebhook
from bayplan.apiserver.context import Context
from bayplan.apiserver.webhooks.posting import ReviewWebhook
from bayplan.cluster.api_server.review_posting import KubeconfigReviewPoster


def connect_image_policy(context: Context) -> ImagePolicyWebhook | None:
    """Give the plugin what reaches its webhook; None if the server runs without it. Raises ValueError for a kubeconfig that cannot be used."""
    for plugin in context.admission.plugins:
        if isinstance(plugin, ImagePolicyWebhook):
            poster = KubeconfigReviewPoster(Path(plugin.configuration.kubeconfig))
            backoff = plugin.configuration.backoff_seconds
            plugin.connect(ReviewWebhook(poster, context.clock, context.randomness, backoff_seconds=backoff))
            return plugin
    return None
