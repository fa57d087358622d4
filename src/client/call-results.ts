/** Turns the reply to a routed call into a value, the aggregate of several containers, PARTIAL, or a retry. */
import {
  type ErrorCode,
  RemusterError,
  parseErrorCode,
  failure,
  isRemusterError,
  success,
  withPossibleEffect,
} from '../base/errors.ts';
import type { ContainerCallResult } from '../containers/contract.ts';
import { callResultOfReply } from '../containers/calls/call-messages.ts';
import type { Methods } from '../containers/module.ts';
import type { Message } from '../messages/catalogue.ts';
import { decodeValue } from '../messages/codec/value.ts';
import type { ClassifiedReply } from './retrying-request.ts';

/** The node that was asked could not help, which says nothing about others, or about the same one a moment later. */
const retryable: readonly ErrorCode[] = ['CANCELLED', 'DRAINED', 'FENCED', 'NETWORK_TIMEOUT', 'UNREACHABLE'];

export function classifyCallReply(
  answer: Message,
  method: Methods[string],
  isEndless: boolean,
): ClassifiedReply<unknown> {
  if (answer.kind !== 'routeCallReply') return { outcome: failure('MALFORMED', `${answer.kind} answers a call`) };
  const result = callResultOfReply(answer);
  if (!result.ok) {
    const mayPass = retryable.includes(result.error.code) || (isEndless && result.error.code === 'DEADLINE');
    return mayPass ? { retry: result.error } : { outcome: result };
  }
  if ('value' in result.value) return { outcome: success(decodeValue(result.value.value)) };
  if ('parts' in result.value) return { outcome: success(aggregateParts(result.value.parts, method)) };
  return { outcome: failure('INTERNAL', 'the method of another version gives a flow') };
}

/** Throws PARTIAL when a part is missing: its message names the parts. What `aggregate` throws is the caller's to see. */
function aggregateParts(parts: readonly ContainerCallResult[], method: Methods[string]): unknown {
  const failed = parts.flatMap((part) => (part.ok ? [] : [`${part.container} (${parseErrorCode(part.code)})`]));
  if (failed.length > 0) {
    const [some, more] = [failed.slice(0, 10), failed.length - 10];
    const tail = more > 0 ? ` and ${more} more` : '';
    throw new RemusterError('PARTIAL', `containers ${some.join(', ')}${tail} of ${parts.length} did not answer`);
  }
  const values = parts.flatMap((part) => (part.ok ? [decodeValue(part.value)] : []));
  const aggregate = typeof method === 'function' ? undefined : method.aggregate;
  if (aggregate === undefined) return values;
  try {
    return aggregate(values);
  } catch (error) {
    // All containers have run the method by now.
    if (isRemusterError(error)) throw withPossibleEffect(error);
    throw new RemusterError('CALL_FAILED', error instanceof Error ? error.message : String(error), 'maybe');
  }
}
