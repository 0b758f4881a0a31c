"""Pretraining small TabICL networks on synthetic tables: prior, network, optimiser, schedule and the run itself.

Nothing here is needed to use ``scff``; the package ships a result, ``nano``. These are the tools it was made with, but
no single recipe makes it again. Its card, ``nano.json`` beside the weights, has the whole story:

- Its weights come down a chain of nineteen training runs and four averages, the first run by a script older than this
  package; several runs were stopped before their recipe ended. Each card holds the one before it as its ``origin``.
- Its network was grown on the way and is not the default recipe's: grouped columns, three row blocks, six class tokens
  and eight context blocks (the last two are the two before them again); the default has single columns, two, four
  and four.
- It reads up to eight principal components behind the columns of a leaf (``view`` in the card). No run of the chain had
  such columns in its tables.

``scff pretrain`` without a recipe trains the default recipe's network from random weights: one run, another network.
"""
