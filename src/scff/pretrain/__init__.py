"""Training small TabICL networks on synthetic tables: prior, lessons, network, optimiser, schedule and the run itself.

Nothing here is needed to use ``scff``. ``scff pretrain --recipe nano --out FOLDER`` trains a network from random
weights by the recipe ``recipes/nano.json``: one run, which can be broken off and resumed, and one card.

The ``nano`` that the package ships is what this command makes: the packaged recipe run to its end from random weights.
Its card, ``nano.json`` beside the weights, holds the recipe, the teacher, the versions and every validation.
"""
