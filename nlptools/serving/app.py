"""The web application: OpenAI's endpoints for completions, chats and embeddings, in front of a `Worker`.

Requests name no files, and nothing in a request is opened, run or fetched.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nlptools.configs.generation import Generate
from nlptools.configs.serve import Serve
from nlptools.configs.units import duration, size
from nlptools.errors import NlptoolsError, shown
from nlptools.files import json_text
from nlptools.inference.generation.requests import CompletionRequest
from nlptools.inference.generation.token_pieces import Piece
from nlptools.json_types import Json, JsonObject
from nlptools.serving import completion_keys, completions
from nlptools.serving.access import LOOPBACK_NAMES, ApiKeys, is_loopback
from nlptools.serving.answers import CompletionAnswer
from nlptools.serving.errors import JsonErrors, Refused, error_object
from nlptools.serving.guards import BodyBudget, RequireKey
from nlptools.serving.service import EMBED, CompletionJob, EmbeddingJob, Service
from nlptools.serving.worker import Busy, I, Job, R, Worker

GRACE = 2.0  # seconds in which an answer that ran out of time is cut short and sent
_POLL = 0.5  # seconds between two looks whether the client is still there
_MOST_CHOICES = 128
_MOST_STOPS = 1000  # they are searched for after every token
_BODIES = 16  # as many of the largest bodies are held at a time
Grown = tuple[int, str, Sequence[Piece]]  # see `OnText`
_EMBEDDING_KEYS = ("input", "model", "encoding_format", "dimensions", "user")


def application(service: Service, worker: Worker, settings: Serve, keys: ApiKeys | None = None) -> Starlette:
    """The application, which a server such as uvicorn runs. With `keys`, requests need one of them."""
    api = _Api(service, worker, settings)
    routes = [
        Route("/health", api.health),
        Route("/v1/models", api.list_models),
        Route("/v1/models/{name:path}", api.show_model),
        Route("/v1/completions", api.complete, methods=["POST"]),
        Route("/v1/chat/completions", partial(api.complete, chat=True), methods=["POST"]),
        Route("/v1/embeddings", api.embed, methods=["POST"]),
    ]
    guards = [Middleware(JsonErrors)]
    if settings.cors:
        guards.append(Middleware(CORSMiddleware, allow_origins=settings.cors, allow_methods=["*"], allow_headers=["*"]))
    if is_loopback(settings.host):
        # only names of this machine: a page in a browser could otherwise rebind its own name to it
        names = dict.fromkeys([*LOOPBACK_NAMES, settings.host])
        guards.append(Middleware(TrustedHostMiddleware, allowed_hosts=list(names)))
    if keys is not None:  # after CORS: browsers ask what they may send without a key
        guards.append(Middleware(RequireKey, keys=keys))
    guards.append(Middleware(BodyBudget, most=_BODIES * size(settings.most_body)))
    handlers: Any = {
        Refused: lambda _, error: error.response,
        Busy: lambda *_: Refused(503, "too many requests are waiting").response,
        TimeoutError: lambda *_: Refused(504, f"no answer within {settings.timeout}").response,
        NlptoolsError: lambda _, error: Refused(400, str(error)).response,
        ClientDisconnect: lambda *_: Response(status_code=499),
        404: lambda request, _: Refused(404, f"no such address: {request.url.path}").response,
        405: _wrong_method,
        500: lambda *_: Refused(500, "the request could not be computed").response,
    }
    return Starlette(routes=routes, middleware=guards, exception_handlers=handlers)


def _wrong_method(request: Request, error: HTTPException) -> Response:
    return Refused(405, f"{request.url.path} does not answer {request.method}", headers=error.headers).response


class _Api:
    def __init__(self, service: Service, worker: Worker, settings: Serve) -> None:
        self.service, self.worker, self.settings = service, worker, settings
        self.started = int(time.time())

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def list_models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def show_model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(self._model())

    async def complete(self, request: Request, *, chat: bool = False) -> Response:
        deadline = self._deadline()
        body = await self._body(request, deadline)
        asked = await asyncio.to_thread(self._requests, body, chat)  # chat templates may take their time
        answer = CompletionAnswer(self.service.name, asked)
        if body.get("stream"):
            queue = _Queue()
            jobs = [
                CompletionJob(each.settings, each, deadline, partial(queue.put, number))
                for number, each in enumerate(asked)
            ]
            self.worker.submit(jobs)
            pieces = self._stream(jobs, queue, answer, _wants_usage(body))
            return StreamingResponse(pieces, media_type="text/event-stream")
        jobs = [CompletionJob(each.settings, each, deadline) for each in asked]
        self.worker.submit(jobs)
        results = await self._results(request, jobs)
        return JSONResponse(answer.whole(results))

    async def embed(self, request: Request) -> Response:
        if self.service.embedder is None:
            raise Refused(404, f"{self.service.name} does not embed texts")
        deadline = self._deadline()
        body = await self._body(request, deadline)
        for key in body:
            if key not in _EMBEDDING_KEYS:
                raise Refused(400, str(completion_keys.unknown(key, _EMBEDDING_KEYS)), key)
        self._check_number(body, "input")
        texts, encoding = _texts(body, "input"), body.get("encoding_format") or "float"
        if encoding not in ("float", "base64"):
            raise Refused(400, "expected float or base64", "encoding_format")
        if body.get("dimensions") is not None:
            raise Refused(400, "the number of dimensions cannot be chosen", "dimensions")
        jobs = [EmbeddingJob(EMBED, text, deadline) for text in texts]
        self.worker.submit(jobs)
        rows = await self._results(request, jobs)
        encode = _base64 if encoding == "base64" else (lambda row: [float(x) for x in row])
        count = sum(tokens for _, tokens in rows)
        data = [{"object": "embedding", "index": i, "embedding": encode(row)} for i, (row, _) in enumerate(rows)]
        usage = {"prompt_tokens": count, "total_tokens": count}
        return JSONResponse({"object": "list", "data": data, "model": self.service.name, "usage": usage})

    # -- requests -------------------------------------------------------------------------------------------------

    def _deadline(self) -> float:
        return time.monotonic() + duration(self.settings.timeout)

    async def _body(self, request: Request, deadline: float) -> JsonObject:
        """The JSON object of a request for this model. Raises Refused."""
        close = {"connection": "close"}  # the client would otherwise go on sending
        most = size(self.settings.most_body)
        try:
            data = await asyncio.wait_for(_read(request, most), deadline - time.monotonic())
        except asyncio.TimeoutError:
            message = f"the request did not arrive within {self.settings.timeout}"
            raise Refused(408, message, headers=close) from None
        if data is None:
            raise Refused(413, f"the request has more than {self.settings.most_body}", headers=close)
        try:
            body = json_text.parsed(data)
        except json_text.KeyTwice as error:
            raise Refused(400, f"the request is not valid JSON: {error}") from None
        except (ValueError, RecursionError):
            raise Refused(400, "the request is not valid JSON") from None
        if not isinstance(body, dict):
            raise Refused(400, "expected a JSON object")
        self._check_model(body.get("model"))
        return body

    def _check_model(self, name: Json) -> None:
        if name not in (None, self.service.name):
            message = f"no model {shown(str(name))} here, expected {shown(self.service.name)}"
            raise Refused(404, message, "model")

    def _model(self) -> dict[str, object]:
        return {"id": self.service.name, "object": "model", "created": self.started, "owned_by": "nlptools"}

    def _requests(self, body: JsonObject, chat: bool) -> list[CompletionRequest]:
        """A request for each prompt. Raises Refused or DataError."""
        if self.service.generator is None:
            raise Refused(404, f"{self.service.name} does not generate text")
        if not chat:
            body.pop("messages", None)
        elif "messages" not in body or "prompt" in body:
            raise Refused(400, 'expected "messages" and no "prompt"', "messages")
        self._check_number(body, "prompt")
        most = self.settings.most_tokens
        base = Generate(max_new_tokens=most if chat else min(completions.USUAL_TOKENS, most), strict=True)
        asked = completions.requests({"body": body}, base, self.service.prompting, strict=True, streams=True)
        chosen = asked[0].settings
        if chosen.room > most:
            raise Refused(400, f"expected at most {most} new tokens", "max_tokens")
        if chosen.drawn > _MOST_CHOICES:
            raise Refused(400, f"expected at most {_MOST_CHOICES} choices", "n")
        if len(chosen.stop) > _MOST_STOPS:
            raise Refused(400, f"expected at most {_MOST_STOPS} texts", "stop")
        if body.get("stream") and chosen.best_of > chosen.num_samples:
            raise Refused(400, 'a stream cannot have the best of several choices, expected "n" alone', "best_of")
        self.service.check(asked)
        return asked

    def _check_number(self, body: JsonObject, key: str) -> None:
        """Raise Refused for a list of more texts than may ever wait, before anything is made of them."""
        texts, most = body.get(key), self.settings.most_waiting
        if isinstance(texts, list) and len(texts) > most and isinstance(texts[0], str | list):
            raise Refused(400, f"expected at most {most} texts", key)

    # -- jobs -----------------------------------------------------------------------------------------------------

    async def _results(self, request: Request, jobs: Sequence[Job[I, R]]) -> list[R]:
        """The results of jobs; if the client leaves, they end early. Raises what a job raised."""
        waiting = {asyncio.wrap_future(job.result) for job in jobs}
        try:
            while waiting:
                _, waiting = await asyncio.wait(waiting, timeout=_POLL)
                if waiting and await request.is_disconnected():
                    raise ClientDisconnect
                if waiting and time.monotonic() > jobs[0].deadline + GRACE:
                    raise TimeoutError
        finally:
            for job in jobs:
                job.left.set()
        return [job.result.result() for job in jobs]

    async def _stream(
        self, jobs: Sequence[CompletionJob], queue: _Queue, answer: CompletionAnswer, usage: bool
    ) -> AsyncIterator[str]:
        """Server-sent events: the text as it grows, then the reasons for its end."""
        try:
            for number, job in enumerate(jobs):
                job.result.add_done_callback(partial(queue.end, number))
            for chunk in answer.begin():
                yield _event(chunk)
            unfinished = len(jobs)
            while unfinished:
                left = jobs[0].deadline + GRACE - time.monotonic()
                number, grown = await asyncio.wait_for(queue.get(), left)
                if grown is not None:
                    yield _event(answer.piece(number, *grown))
                    continue
                unfinished -= 1
                for chunk in answer.ends(number, jobs[number].result.result()):
                    yield _event(chunk)
            if usage:
                yield _event(answer.usage([job.result.result() for job in jobs]))
            yield "data: [DONE]\n\n"
        except (TimeoutError, asyncio.TimeoutError):
            yield _event(error_object(f"no answer within {self.settings.timeout}", 504))
        except Busy:
            yield _event(error_object("the server ends", 503))
        except NlptoolsError as error:
            yield _event(error_object(str(error), 400))
        finally:
            for job in jobs:
                job.left.set()


class _Queue:
    """The parts of a streamed answer, from the thread of a worker."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue = asyncio.Queue[tuple[int, Grown | None]]()

    def put(self, number: int, sample: int, text: str, pieces: Sequence[Piece]) -> None:
        """More of the answer of a job, see `OnText`."""
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (number, (sample, text, pieces)))

    def end(self, number: int, _: object) -> None:
        """The end of a job."""
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (number, None))

    async def get(self) -> tuple[int, Grown | None]:
        """The next of these: the number of a job, and what `put` got, or None."""
        return await self._queue.get()


async def _read(request: Request, most: int) -> bytes | None:
    """The body of a request; None if it has more than `most` bytes."""
    data = bytearray()
    if int(request.headers.get("content-length", 0)) > most:
        return None
    async for part in request.stream():
        data += part
        if len(data) > most:
            return None
    return bytes(data)


def _wants_usage(body: Mapping[str, Json]) -> bool:
    """Whether a stream ends with the numbers of tokens. Raises Refused."""
    options = body.get("stream_options") or {}
    if not isinstance(options, dict) or not isinstance(options.get("include_usage", False), bool):
        raise Refused(400, 'expected {"include_usage": true} or nothing', "stream_options")
    return bool(options.get("include_usage"))


def _texts(body: JsonObject, key: str) -> list[str]:
    """The text or the texts under `key`. Raises Refused."""
    value = body.get(key)
    values = value if isinstance(value, list) else [value]
    texts = [text for text in values if isinstance(text, str)]
    if not texts or len(texts) < len(values):
        raise Refused(400, "expected a text or a list of texts; token numbers are not supported", key)
    return texts


def _base64(row: NDArray[np.float32]) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _event(data: Mapping[str, object]) -> str:
    return f"data: {json.dumps(data)}\n\n"
