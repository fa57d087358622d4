/**
 * Why untrusted bytes were refused, as a countable reason. Names the field; never repeats what the peer sent, so a
 * hostile message cannot write into the log.
 */
import { type ErrorCode, RemusterError, isRemusterError } from '../../base/errors.ts';

const reasonTable = {
  header: 'MALFORMED',
  version: 'INCOMPATIBLE_VERSION',
  unknownTag: 'MALFORMED',
  messageBytes: 'TOO_LARGE',
  truncated: 'MALFORMED',
  varint: 'MALFORMED',
  wireType: 'MALFORMED',
  fieldNumber: 'MALFORMED',
  fieldOrder: 'MALFORMED',
  duplicateField: 'MALFORMED',
  missingField: 'MALFORMED',
  fieldLength: 'MALFORMED',
  range: 'MALFORMED',
  enumeration: 'MALFORMED',
  notFinite: 'MALFORMED',
  utf8: 'MALFORMED',
  name: 'MALFORMED',
  duplicateKey: 'MALFORMED',
  fieldBytes: 'TOO_LARGE',
  itemCount: 'TOO_LARGE',
  grammarSentence: 'MALFORMED',
  grammarAddress: 'MALFORMED',
  grammarNumber: 'MALFORMED',
  grammarUpdate: 'MALFORMED',
  grammarState: 'MALFORMED',
  grammarLength: 'TOO_LARGE',
} as const satisfies Record<string, ErrorCode>;

export type RejectionReason = keyof typeof reasonTable;

export const rejectionReasons = Object.keys(reasonTable) as readonly RejectionReason[];

export type DecodeError = RemusterError & { readonly reason: RejectionReason };

export function decodeError(reason: RejectionReason, message: string): DecodeError {
  return Object.assign(new RemusterError(reasonTable[reason], message), { reason });
}

/** The reason to count a decode error under; undefined for any other error. */
export function rejectionReason(error: unknown): RejectionReason | undefined {
  if (!isRemusterError(error) || !('reason' in error)) return undefined;
  return rejectionReasons.find((reason) => reason === error.reason);
}
