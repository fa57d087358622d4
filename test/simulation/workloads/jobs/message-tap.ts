/**
 * Observes on the wire, as sent and received, which units are assigned to workers and what workers report of them.
 * Changes nothing.
 */
import type { Streams } from '../../../../src/base/ports.ts';
import { decodeMessage } from '../../../../src/messages/catalogue.ts';
import { peekTag } from '../../../../src/messages/codec/codec.ts';
import { type UnitAssignment, jobMessages } from '../../../../src/messages/jobs.ts';
import type { JobObserver } from './job-observer.ts';

const tagOf = (kind: string): number => jobMessages.find((one) => one.kind === kind)?.tag ?? -1;
const giveTag = tagOf('assignUnits');
const tellTag = tagOf('reportUnits');

export function tapJobMessages(streams: Streams, node: string, witness: JobObserver): Streams {
  return {
    ...streams,
    request: (to, body, timeoutMs, done) => {
      const message = peekTag(body) === giveTag ? decodeMessage(body) : undefined;
      if (message?.kind === 'assignUnits') witness.sentAssignment(node, to.host, message);
      return streams.request(to, body, timeoutMs, done);
    },
    serve: (service) =>
      streams.serve({
        ...service,
        request: (from, body, remainingMs, reply) => {
          const tag = peekTag(body);
          if (tag === tellTag) heardNews(body, witness);
          if (tag !== giveTag) return service.request(from, body, remainingMs, reply);
          const asked = heardGiven(node, body, witness);
          service.request(from, body, remainingMs, (outcome) => {
            const answer = outcome.ok ? decodeMessage(outcome.value) : undefined;
            if (answer?.kind === 'assignUnitsReply') witness.accepted(asked, answer);
            reply(outcome);
          });
        },
      }),
  };
}

function heardGiven(node: string, body: Uint8Array, witness: JobObserver): readonly UnitAssignment[] {
  const message = decodeMessage(body);
  if (message.kind !== 'assignUnits') return [];
  witness.assigned(node, message);
  return message.units;
}

function heardNews(body: Uint8Array, witness: JobObserver): void {
  const message = decodeMessage(body);
  if (message.kind !== 'reportUnits') return;
  for (const news of message.reports) if (news.status === 'returned') witness.returned(news);
}
