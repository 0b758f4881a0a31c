"""Training small TabICL networks on synthetic tables: prior, lessons, network, optimiser, schedule and the run itself.

Nothing here is needed to use ``scff``. ``scff pretrain --recipe nano --out FOLDER`` trains a network from random
weights by the recipe ``recipes/nano.json``: one run, which can be broken off and resumed, and one card.

The ``nano`` that the package ships was not made this way, and cannot be made again. Its card, ``nano.json`` beside the
weights, has the whole story:

- Its weights come down a chain of nineteen training runs and four averages, the first run by a script older than this
  package, the others by tools that are no longer in it; several runs were stopped before their recipe ended. Each card
  holds the one before it as its ``origin``.
- Its network was grown on the way and is not the recipe's: neighbouring columns lend each other their values, three row
  blocks, six class tokens and eight context blocks (the last two are the two before them again); the recipe makes one
  token of three columns, with two row blocks, four class tokens and eight narrower context blocks.
- It reads up to eight principal components behind the columns of a leaf (``view`` in the card). No run of the chain had
  such columns in its tables.
"""
