"""Which fake answers for which declaration of the shelf?"""

from collections.abc import Mapping
from typing import Final

from remora.testing import Fake
from tests.shelf.chat import ChatGpt, Claude, Slack
from tests.shelf.forges import GitHub, GitLab, StackExchange
from tests.shelf.office import Gmail, Graph, Notion
from tests.shelf.talk import Discourse, Mastodon, Reddit, Wikipedia
from tests.shelf.trade import DjangoRest, Shopify, Stripe, Zendesk

FAKES: Final[Mapping[str, type[Fake]]] = {
    "chatgpt-conversations": ChatGpt,
    "claude-conversations": Claude,
    "discourse-topics": Discourse,
    "django-rest": DjangoRest,
    "github-issues": GitHub,
    "gitlab-issues": GitLab,
    "gmail": Gmail,
    "mastodon-statuses": Mastodon,
    "microsoft-graph-mail": Graph,
    "notion": Notion,
    "reddit-posts": Reddit,
    "shopify-orders": Shopify,
    "slack": Slack,
    "stack-exchange": StackExchange,
    "stripe-charges": Stripe,
    "wikipedia-changes": Wikipedia,
    "zendesk-tickets": Zendesk,
}
