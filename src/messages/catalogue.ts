/** The list of all wire messages and their codec. A tag is never reused. */
import { isRemusterError } from '../base/errors.ts';
import { callMessages } from './calls.ts';
import { createCodec } from './codec/codec.ts';
import { consensusMessages } from './consensus.ts';
import { groupAdminMessages } from './group-admin.ts';
import { replicationMessages } from './replication.ts';
import { jobMessages } from './jobs.ts';
import type { MessageOf } from './codec/message.ts';
import { echo, echoReply, listMembers, listMembersReply } from './diagnostics.ts';
import { membershipMessages } from './membership.ts';
import { poolMessages } from './pools.ts';
import { registryMessages } from './registry.ts';
import { servingLeaseMessages } from './serving-lease.ts';

/** Tags of messages that no longer exist; they are never reused. */
export const retiredTags: readonly number[] = [1, 2, 3, 4, 5];

export const catalogue = [
  listMembers,
  listMembersReply,
  echo,
  echoReply,
  ...membershipMessages,
  ...consensusMessages,
  ...registryMessages,
  ...groupAdminMessages,
  ...poolMessages,
  ...replicationMessages,
  ...servingLeaseMessages,
  ...callMessages,
  ...jobMessages,
] as const;

export type Message = MessageOf<typeof catalogue>;

const codec = createCodec(catalogue);

/** Throws BAD_ARGUMENT or TOO_LARGE for a message that no receiver would accept. */
export function encodeMessage(message: Message): Uint8Array {
  return codec.encode(message);
}

/** Throws a decode error (codec/decode-error.ts) unless `bytes` is exactly one valid message. Keeps no view of `bytes`. */
export function decodeMessage(bytes: Uint8Array): Message {
  return codec.decode(bytes);
}

/** Undefined unless `bytes` is exactly one valid message, for callers that then try another node. */
export function tryDecodeMessage(bytes: Uint8Array): Message | undefined {
  try {
    return decodeMessage(bytes);
  } catch (error) {
    if (isRemusterError(error)) return undefined;
    throw error;
  }
}
