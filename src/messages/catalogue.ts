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
import { pushMessages } from './push.ts';
import { registryMessages } from './registry.ts';
import { servingLeaseMessages } from './serving-lease.ts';

/** Tags of messages that are no longer said. */
export const retiredTags: readonly number[] = [1, 2, 3, 4, 5];

export const catalogue = [
  listMembers,
  listMembersReply,
  echo,
  echoReply,
  ...membershipMessages,
  ...pushMessages,
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

/** Throws BAD_ARGUMENT or TOO_LARGE for what no receiver would accept. */
export function encodeMessage(message: Message): Uint8Array {
  return codec.encode(message);
}

/** Throws a rejection (see rejection.ts) for whatever is not exactly one valid message. Keeps nothing of `bytes`. */
export function decodeMessage(bytes: Uint8Array): Message {
  return codec.decode(bytes);
}

/** Undefined for whatever is not exactly one valid message, for those who ask somebody else then. */
export function tryDecodeMessage(bytes: Uint8Array): Message | undefined {
  try {
    return decodeMessage(bytes);
  } catch (error) {
    if (isRemusterError(error)) return undefined;
    throw error;
  }
}
