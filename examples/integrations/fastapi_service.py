"""A model behind a web service.

pip install fastapi uvicorn
MODEL=model.scff uvicorn fastapi_service:app
"""

import os

import pandas as pd
from fastapi import FastAPI, HTTPException

from scff.errors import DataError
from scff.serving import Scorer

app = FastAPI()
score = Scorer(os.environ["MODEL"])


@app.post("/predict")
def predict(rows: list[dict[str, float | str | None]]) -> list[dict[str, float | int | str]]:
    """One object per row in, one per row out."""
    try:
        return score(pd.DataFrame(rows)).to_dict(orient="records")
    except DataError as error:
        raise HTTPException(422, str(error)) from error
