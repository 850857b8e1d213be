"""ListConfigResources: the names of what has configuration (KIP-1142).

Versions
    0    client metrics subscriptions only
    1    the kinds of resources that are wanted; all if there is none
"""

from __future__ import annotations

from broker_lite.apis.config_resources import Resource
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.config.key import Scope
from broker_lite.errors import UnsupportedVersion
from broker_lite.wire.messages.k74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_FIRST_WITH_KINDS = 1


@serves(ListConfigResourcesRequest, versions="0-1")
def list_config_resources(ctx: Context, req: ListConfigResourcesRequest) -> Steps[ListConfigResourcesResponse]:
    broker = ctx.broker
    kinds = set(req.resource_types) or set(Resource)
    if ctx.version < _FIRST_WITH_KINDS:
        kinds = {Resource.CLIENT_METRICS}
    if not kinds <= set(Resource):
        raise UnsupportedVersion(f"there is no kind of resource with a number of {sorted(kinds - set(Resource))}")
    node = [str(broker.node_id)]
    names = {
        Resource.GROUP: broker.configs.names(Scope.GROUP),
        Resource.CLIENT_METRICS: broker.configs.names(Scope.CLIENT_METRICS),
        Resource.BROKER_LOGGER: node,
        Resource.BROKER: node,
        Resource.TOPIC: [topic.name for topic in broker.topics],
    }
    found: list[ConfigResource] = []
    for kind, all_of_it in names.items():
        for name in all_of_it if kind in kinds else ():
            yield units(len(name))
            found.append(ConfigResource(resource_name=name, resource_type=kind))
    return ListConfigResourcesResponse(config_resources=found)
