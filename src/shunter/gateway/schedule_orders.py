"""What is answered to questions about schedules and to orders for them, whichever way they came.

A refusal is part of the answer, with its field. Spec: docs/spec/schedules.md.
"""

from __future__ import annotations

from shunter.dispatch.schedule_book import ScheduleBook
from shunter.errors import ScheduleError, ScheduleRefused
from shunter.model.scope import JobScope
from shunter.model.submission import Receipt
from shunter.wire.messages import ScheduleOrder, SchedulesAsked, SchedulesListed, ScheduleVerb


async def answer_question(
    book: ScheduleBook, scope: JobScope, asked: SchedulesAsked
) -> SchedulesListed:
    """Show schedules, or raise a StoreError."""
    try:
        if asked.name is not None:
            found = await book.found(scope, asked.name, asked.namespace)
            return SchedulesListed(asked.request, (found,))
        page = await book.listed(
            scope, namespace=asked.namespace, before=asked.before, limit=asked.limit
        )
    except ScheduleError as error:
        return SchedulesListed(asked.request, refusal=_receipt(error))
    return SchedulesListed(asked.request, page.schedules, next=page.next)


async def carry_out(book: ScheduleBook, scope: JobScope, order: ScheduleOrder) -> SchedulesListed:
    """Do what was ordered, or raise a StoreError."""
    try:
        return await _carry_out(book, scope, order)
    except ScheduleError as error:
        return SchedulesListed(order.request, refusal=_receipt(error))


async def _carry_out(book: ScheduleBook, scope: JobScope, order: ScheduleOrder) -> SchedulesListed:
    name, namespace = order.name, order.namespace
    match order.verb:
        case ScheduleVerb.PUT:
            if order.draft is None:
                raise ScheduleRefused(name, "draft", "missing; send the schedule that is to be")
            found = await book.put(scope, name, order.draft, namespace)
            return SchedulesListed(order.request, (found,))
        case ScheduleVerb.PAUSE:
            return SchedulesListed(order.request, (await book.pause(scope, name, namespace),))
        case ScheduleVerb.RESUME:
            return SchedulesListed(order.request, (await book.resume(scope, name, namespace),))
        case ScheduleVerb.REMOVE:
            await book.remove(scope, name, namespace)
            return SchedulesListed(order.request)
        case ScheduleVerb.TRIGGER:
            made = await book.trigger(scope, name, namespace, job_id=order.job_id)
            return SchedulesListed(order.request, job_ids=(made,))
        case ScheduleVerb.BACKFILL:
            if order.begin is None or order.end is None:
                raise ScheduleRefused(name, "begin", "missing; send begin and end")
            ids = await book.backfill(scope, name, namespace, begin=order.begin, end=order.end)
            return SchedulesListed(order.request, job_ids=tuple(ids))


def _receipt(error: ScheduleError) -> Receipt:
    if isinstance(error, ScheduleRefused):
        return Receipt(error.name, error.field, error.reason)
    return Receipt(error.name, "name", "")
