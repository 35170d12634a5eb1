"""The web application: OpenAI's endpoints for completions, chats and embeddings, in front of a `Worker`.

Requests name no files, and nothing in a request is opened, run or fetched.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nlptools.configs import duration, size
from nlptools.configs.generation import Generate
from nlptools.configs.serve import Serve
from nlptools.errors import NlptoolsError
from nlptools.formats import completions
from nlptools.inference.serving.service import EMBED, Service
from nlptools.inference.serving.worker import Busy, Job, Worker

_GRACE = 2.0  # seconds in which an answer that ran out of time is cut short and sent
_POLL = 0.5  # seconds between two looks whether the client is still there
# keys of a request that would change the answer, and that no model here can obey
_UNSUPPORTED = (
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "response_format",
    "logit_bias",
    "suffix",
    "audio",
)
_MOST_CHOICES = 128
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, key: str | None = None) -> None:
        super().__init__(message)
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.response = JSONResponse({"error": {"message": message, "type": kind, "param": key, "code": None}}, status)


def application(service: Service, worker: Worker, settings: Serve) -> Starlette:
    """The application, which a server such as uvicorn runs."""
    api = _Api(service, worker, settings)
    routes = [
        Route("/health", api.health),
        Route("/v1/models", api.list_models),
        Route("/v1/completions", api.complete, methods=["POST"]),
        Route("/v1/chat/completions", partial(api.complete, chat=True), methods=["POST"]),
        Route("/v1/embeddings", api.embed, methods=["POST"]),
    ]
    # on loopback, only names of this machine: a page in a browser could otherwise rebind its own name to it
    guards = [Middleware(TrustedHostMiddleware, allowed_hosts=list(_LOOPBACK))] if settings.host in _LOOPBACK else []
    handlers: Any = {
        Refused: lambda _, error: error.response,
        Busy: lambda *_: Refused(503, "too many requests are waiting").response,
        TimeoutError: lambda *_: Refused(504, f"no answer within {settings.timeout}").response,
        NlptoolsError: lambda _, error: Refused(400, str(error)).response,
        ClientDisconnect: lambda *_: Response(status_code=499),
        404: lambda request, _: Refused(404, f"no such address: {request.url.path}").response,
        405: lambda request, _: Refused(405, f"{request.url.path} does not answer {request.method}").response,
        500: lambda *_: Refused(500, "the request could not be computed").response,
    }
    return Starlette(routes=routes, middleware=guards, exception_handlers=handlers)


class _Api:
    def __init__(self, service: Service, worker: Worker, settings: Serve) -> None:
        self.service, self.worker, self.settings = service, worker, settings
        self.started = int(time.time())

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def list_models(self, request: Request) -> Response:
        model = {"id": self.service.name, "object": "model", "created": self.started, "owned_by": "nlptools"}
        return JSONResponse({"object": "list", "data": [model]})

    async def complete(self, request: Request, *, chat: bool = False) -> Response:
        body = await self._body(request)
        asked = self._requests(body, chat)
        answer = _Answer(self.service.name, asked)
        if body.get("stream"):
            return StreamingResponse(self._stream(body, asked, answer), media_type="text/event-stream")
        jobs = self._submit([(each.settings, each) for each in asked])
        return JSONResponse(answer.whole(await self._results(request, jobs)))

    async def embed(self, request: Request) -> Response:
        if self.service.embedder is None:
            raise Refused(404, f"{self.service.name} does not embed texts")
        body = await self._body(request)
        texts, encoding = _texts(body, "input"), body.get("encoding_format") or "float"
        if encoding not in ("float", "base64"):
            raise Refused(400, "expected float or base64", "encoding_format")
        if body.get("dimensions") is not None:
            raise Refused(400, "the number of dimensions cannot be chosen", "dimensions")
        jobs = self._submit([(EMBED, text) for text in texts])
        rows = await self._results(request, jobs)
        encode = _base64 if encoding == "base64" else (lambda row: [float(x) for x in row])
        count = sum(tokens for _, tokens in rows)
        data = [{"object": "embedding", "index": i, "embedding": encode(row)} for i, (row, _) in enumerate(rows)]
        usage = {"prompt_tokens": count, "total_tokens": count}
        return JSONResponse({"object": "list", "data": data, "model": self.service.name, "usage": usage})

    # -- requests -------------------------------------------------------------------------------------------------

    async def _body(self, request: Request) -> dict[str, Any]:
        """The JSON object of a request. Raises Refused."""
        most, parts, length = size(self.settings.most_body), [], 0
        async for part in request.stream():
            length += len(part)
            if length > most:
                raise Refused(413, f"the request has more than {self.settings.most_body}")
            parts.append(part)
        try:
            body = json.loads(b"".join(parts))
        except (ValueError, RecursionError):
            raise Refused(400, "the request is not valid JSON") from None
        if not isinstance(body, dict):
            raise Refused(400, "expected a JSON object")
        for key in _UNSUPPORTED:
            if body.get(key) not in (None, [], {}, "none", {"type": "text"}):
                raise Refused(400, f"{key!r} is not supported", key)
        return body

    def _requests(self, body: dict[str, Any], chat: bool) -> list[completions.Request]:
        """A request for each prompt. Raises Refused or DataError."""
        if self.service.generator is None:
            raise Refused(404, f"{self.service.name} does not generate text")
        most = self.settings.most_tokens
        base = Generate(max_new_tokens=most if chat else min(16, most), echo=bool(body.get("echo")))
        prompts: list[dict[str, Any]] = [{}] if chat else [{"prompt": text} for text in _texts(body, "prompt")]
        if not chat:
            body.pop("messages", None)
        elif "messages" not in body or "prompt" in body:
            raise Refused(400, 'expected "messages" and no "prompt"', "messages")
        asked = [completions.request({**body, **prompt}, base, self.service.render) for prompt in prompts]
        chosen = asked[0].settings
        if chosen.room > most:
            raise Refused(400, f"expected at most {most} new tokens", "max_tokens")
        if chosen.drawn > _MOST_CHOICES:
            raise Refused(400, f"expected at most {_MOST_CHOICES} choices", "n")
        if body.get("stream") and (chosen.drawn > 1 or chosen.logprobs):
            raise Refused(400, "a stream has one choice, without log-probabilities", "stream")
        return asked

    # -- jobs -----------------------------------------------------------------------------------------------------

    def _submit(self, items: Sequence[tuple[Any, Any]], on_text: Callable[[int, str], None] | None = None) -> list[Job]:
        deadline = time.monotonic() + duration(self.settings.timeout)
        jobs = [
            Job(key, item, deadline, on_text and partial(on_text, number)) for number, (key, item) in enumerate(items)
        ]
        self.worker.submit(jobs)
        return jobs

    async def _results(self, request: Request, jobs: Sequence[Job]) -> list[Any]:
        """The results of jobs; if the client leaves, they end early. Raises what a job raised."""
        waiting: set[Awaitable[Any]] = {asyncio.wrap_future(job.result) for job in jobs}
        try:
            while waiting:
                _, waiting = await asyncio.wait(waiting, timeout=_POLL)  # type: ignore[type-var]
                if waiting and await request.is_disconnected():
                    raise ClientDisconnect
                if waiting and time.monotonic() > jobs[0].deadline + _GRACE:
                    raise TimeoutError
        finally:
            for job in jobs:
                job.left.set()
        return [job.result.result() for job in jobs]

    async def _stream(
        self, body: dict[str, Any], asked: list[completions.Request], answer: _Answer
    ) -> AsyncIterator[str]:
        """Server-sent events: the text as it grows, then the reasons for its end."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[int, str | None]]()

        def put(number: int, text: str | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, (number, text))

        jobs: list[Job] = []
        try:
            jobs = self._submit([(each.settings, each) for each in asked], put)
            for number, job in enumerate(jobs):
                job.result.add_done_callback(partial(_at_end, put, number))
            for number in range(len(jobs)):
                yield _event(answer.piece(number, "", first=True))
            unfinished = len(jobs)
            while unfinished:
                number, text = await queue.get()
                if text is not None:
                    yield _event(answer.piece(number, text))
                    continue
                unfinished -= 1
                yield _event(answer.piece(number, None, jobs[number].result.result()[0].finish))
            if (body.get("stream_options") or {}).get("include_usage"):
                yield _event(answer.last([job.result.result() for job in jobs]))
            yield "data: [DONE]\n\n"
        except (Busy, TimeoutError, NlptoolsError) as error:
            yield _event({"error": {"message": str(error) or "the server is busy", "type": "server_error"}})
        finally:
            for job in jobs:
                job.left.set()


class _Answer:
    """The objects of one answer, whole or in pieces of a stream."""

    def __init__(self, model: str, asked: list[completions.Request]) -> None:
        self.asked, self.chat = asked, asked[0].chat
        kind = "chatcmpl" if self.chat else "cmpl"
        self.head = {"id": f"{kind}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, results: Sequence[Any]) -> dict[str, Any]:
        """The choices of all prompts, one prompt after the other."""
        responses = [completions.response(each, 0, outputs) for each, outputs in zip(self.asked, results, strict=True)]
        choices = [choice for response in responses for choice in response["choices"]]
        choices = [{**choice, "index": index} for index, choice in enumerate(choices)]
        return {**responses[0], **self.head, "choices": choices, "usage": _usage(responses)}

    def piece(self, index: int, text: str | None, finish: str | None = None, first: bool = False) -> dict[str, Any]:
        """Some text of a prompt's answer, or its end."""
        if self.chat:
            role = {"role": "assistant"} if first else {}
            content: dict[str, Any] = {"delta": {**role, **({} if text is None else {"content": text})}}
        else:
            echoed = self.asked[index].prompt if first and self.asked[index].settings.echo else ""
            content = {"text": echoed + (text or "")}
        reason = finish and ("length" if finish == "length" else "stop")
        return {**self._kind(), "choices": [{"index": index, **content, "logprobs": None, "finish_reason": reason}]}

    def last(self, results: Sequence[Any]) -> dict[str, Any]:
        """The numbers of tokens, at the end of a stream."""
        responses = [completions.response(each, 0, outputs) for each, outputs in zip(self.asked, results, strict=True)]
        return {**self._kind(), "choices": [], "usage": _usage(responses)}

    def _kind(self) -> dict[str, Any]:
        return {**self.head, "object": "chat.completion.chunk" if self.chat else "text_completion"}


def _at_end(put: Callable[[int, str | None], None], number: int, _: object) -> None:
    put(number, None)


def _usage(responses: Sequence[dict[str, Any]]) -> dict[str, int]:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: sum(response["usage"][name] for response in responses) for name in names}


def _texts(body: dict[str, Any], key: str) -> list[str]:
    """The text or the texts under `key`. Raises Refused."""
    value = body.get(key)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise Refused(400, "expected a text or a list of texts; token numbers are not supported", key)
    return texts


def _base64(row: Any) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
