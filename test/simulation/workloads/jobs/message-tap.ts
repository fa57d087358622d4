/**
 * Observes on the wire which units managers assign, as sent and as received, and what workers report of them. Changes
 * nothing.
 */
import type { Streams } from '../../../../src/base/ports.ts';
import { decodeMessage } from '../../../../src/messages/catalogue.ts';
import { peekTag } from '../../../../src/messages/codec/codec.ts';
import { type UnitAssignment, jobMessages } from '../../../../src/messages/jobs.ts';
import type { JobObserver } from './job-observer.ts';

const tagOf = (kind: string): number => jobMessages.find((one) => one.kind === kind)?.tag ?? -1;
const assignTag = tagOf('assignUnits');
const reportTag = tagOf('reportUnits');

export function tapJobMessages(streams: Streams, node: string, observer: JobObserver): Streams {
  return {
    ...streams,
    request: (to, body, timeoutMs, done) => {
      const message = peekTag(body) === assignTag ? decodeMessage(body) : undefined;
      if (message?.kind === 'assignUnits') observer.sentAssignment(node, to.host, message);
      return streams.request(to, body, timeoutMs, done);
    },
    serve: (service) =>
      streams.serve({
        ...service,
        request: (from, body, remainingMs, reply) => {
          const tag = peekTag(body);
          if (tag === reportTag) onReportUnits(body, observer);
          if (tag !== assignTag) return service.request(from, body, remainingMs, reply);
          const assigned = onAssignUnits(node, body, observer);
          service.request(from, body, remainingMs, (outcome) => {
            const message = outcome.ok ? decodeMessage(outcome.value) : undefined;
            if (message?.kind === 'assignUnitsReply') observer.accepted(assigned, message);
            reply(outcome);
          });
        },
      }),
  };
}

function onAssignUnits(node: string, body: Uint8Array, observer: JobObserver): readonly UnitAssignment[] {
  const message = decodeMessage(body);
  if (message.kind !== 'assignUnits') return [];
  observer.assigned(node, message);
  return message.units;
}

function onReportUnits(body: Uint8Array, observer: JobObserver): void {
  const message = decodeMessage(body);
  if (message.kind !== 'reportUnits') return;
  for (const report of message.reports) if (report.status === 'returned') observer.returned(report);
}
