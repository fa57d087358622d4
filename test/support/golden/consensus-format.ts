/** How golden traces print consensus messages. */
import { unreachable } from '../../../src/base/assert.ts';
import type { ConsensusMessage } from '../../../src/messages/consensus.ts';
import { formatTraceMessage } from '../../../src/messages/trace-format.ts';
import { addressOf } from '../consensus/consensus-cluster.ts';

export function isHeartbeat(message: ConsensusMessage): boolean {
  return message.kind === 'appendEntries' && message.entries.length === 0;
}

/** `from` is the key of the sender; the address in a trace message is the one it is about. */
export function formatConsensusMessage(from: string, message: ConsensusMessage): string {
  const about = { address: addressOf(from), updates: [], state: undefined };
  const { term } = message;
  switch (message.kind) {
    case 'preVote':
      return formatTraceMessage({ verb: 'pre-vote', term, ...about });
    case 'preVoteReply':
      return formatTraceMessage({
        verb: 'pre-vote-response',
        term: message.requestedTerm,
        granted: message.granted,
        ...about,
      });
    case 'requestVote': {
      const release = message.releasedTerm === undefined ? '' : `, lease released in term ${message.releasedTerm}`;
      return `${formatTraceMessage({ verb: 'vote-req', term, ...about })}${release}`;
    }
    case 'requestVoteReply':
      return formatTraceMessage({ verb: 'vote-response', term, granted: message.granted, ...about });
    case 'appendEntries': {
      const { prevIndex, prevTerm, entries, commitIndex } = message;
      if (entries.length === 0)
        return `${formatTraceMessage({ verb: 'heartbeat', term, ...about })}, commit ${commitIndex}`;
      const range = entries.length === 1 ? `${prevIndex + 1}` : `${prevIndex + 1}..${prevIndex + entries.length}`;
      return `term ${term}: append ${range} after ${prevIndex} of term ${prevTerm}, commit ${commitIndex}`;
    }
    case 'appendEntriesReply':
      return message.ok
        ? `term ${term}: match ${message.index}`
        : `term ${term}: lacks ${message.prevIndex}, try ${message.index} of term ${message.hintTerm}`;
    case 'timeoutNow':
      return `term ${term}: timeout now`;
    case 'installSnapshot':
      return `term ${term}: snapshot at ${message.lastIndex}, bytes ${message.offset}..${message.offset + message.chunk.length} of ${message.totalBytes}`;
    case 'installSnapshotReply':
      return `term ${term}: snapshot at ${message.lastIndex}, has ${message.offset} bytes`;
    default:
      return unreachable(message);
  }
}
