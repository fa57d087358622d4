/** Turns the reply to a routed call into a value, the aggregate of several containers, PARTIAL, or a retry. */
import { type ErrorCode, RemusterError, parseErrorCode, failure, success } from '../base/errors.ts';
import type { ContainerCallResult } from '../containers/contract.ts';
import { aggregateFailure } from '../containers/calls/aggregation.ts';
import { callResultOfReply } from '../containers/calls/call-messages.ts';
import type { Methods } from '../containers/module.ts';
import type { Message } from '../messages/catalogue.ts';
import { decodeValue } from '../messages/codec/value.ts';
import type { ClassifiedReply } from './retrying-request.ts';

/** The container did not execute the call, or its reply was lost; another node, or the same one later, may succeed. */
const retryable: readonly ErrorCode[] = ['CANCELLED', 'DRAINED', 'FENCED', 'NETWORK_TIMEOUT', 'UNREACHABLE'];

/** `isEndless`: the call has no deadline of its own, so it outlives the deadline of one attempt. */
export function classifyCallReply(
  reply: Message,
  method: Methods[string],
  isEndless: boolean,
): ClassifiedReply<unknown> {
  if (reply.kind !== 'routeCallReply') return { outcome: failure('MALFORMED', `a call got the reply ${reply.kind}`) };
  const result = callResultOfReply(reply);
  if (!result.ok) {
    const isRetryable = retryable.includes(result.error.code) || (isEndless && result.error.code === 'DEADLINE');
    return isRetryable ? { retry: result.error } : { outcome: result };
  }
  if ('value' in result.value) return { outcome: success(decodeValue(result.value.value)) };
  if ('parts' in result.value) return { outcome: success(aggregateParts(result.value.parts, method)) };
  return { outcome: failure('INTERNAL', 'the method returns a result stream in the module version of the cluster') };
}

/** Throws PARTIAL if a part failed, with its container and code; passes on what `aggregate` throws. */
function aggregateParts(parts: readonly ContainerCallResult[], method: Methods[string]): unknown {
  const failed = parts.flatMap((part) => (part.ok ? [] : [`${part.container} (${parseErrorCode(part.code)})`]));
  if (failed.length > 0) {
    const [first, more] = [failed.slice(0, 10), failed.length - 10];
    const tail = more > 0 ? ` and ${more} more` : '';
    const message = `${failed.length} of ${parts.length} containers failed: ${first.join(', ')}${tail}`;
    throw new RemusterError('PARTIAL', message);
  }
  const values = parts.flatMap((part) => (part.ok ? [decodeValue(part.value)] : []));
  const aggregate = typeof method === 'function' ? undefined : method.aggregate;
  if (aggregate === undefined) return values;
  try {
    return aggregate(values);
  } catch (error) {
    throw aggregateFailure(error);
  }
}
