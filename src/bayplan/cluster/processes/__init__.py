"""The processes of a cluster: the second one with the components, several API servers, answers to questions, and the fork servers that make them."""
