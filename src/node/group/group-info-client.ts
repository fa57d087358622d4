/** Requests group information from another node. Keeps nothing. */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Address, Streams } from '../../base/ports.ts';
import { type Message, encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';

export type DescribeGroupReply = Extract<Message, { readonly kind: 'describeGroupReply' }>;

export type DescribeGroup = (to: Address, done: Done<DescribeGroupReply>) => void;

export function groupInfoClient(streams: Pick<Streams, 'request'>, group: string, timeoutMs: number): DescribeGroup {
  return (to, done) => {
    streams.request(to, encodeMessage({ kind: 'describeGroup', group }), timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      const reply = tryDecodeMessage(outcome.value);
      done(
        reply?.kind === 'describeGroupReply'
          ? success(reply)
          : failure('MALFORMED', 'the reply is not a describeGroupReply'),
      );
    });
  };
}
