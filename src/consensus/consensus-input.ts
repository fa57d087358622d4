/** Inputs of the consensus machine. `call` names the pending request of this node that the input completes. */
import type { NodeId } from '../base/ids.ts';
import type { ConsensusMessage } from '../messages/consensus.ts';
import type { Proposal } from './replication/proposal-queue.ts';
import type { GroupChange, GroupMember } from './state/state-machine.ts';

export type MessageSender = { readonly id: NodeId; readonly generation: number };

export type ConsensusInput =
  | { readonly kind: 'start' }
  | { readonly kind: 'bootstrap'; readonly members: readonly GroupMember[]; readonly call: number }
  | { readonly kind: 'message'; readonly from: MessageSender; readonly message: ConsensusMessage }
  | { readonly kind: 'propose'; readonly proposals: readonly Proposal[] }
  | { readonly kind: 'readBarrier'; readonly call: number }
  | { readonly kind: 'change'; readonly change: GroupChange; readonly call: number }
  | { readonly kind: 'transfer'; readonly to: NodeId | undefined; readonly call: number }
  | { readonly kind: 'durable' }
  /** Without a part: the one before was the last. */
  | { readonly kind: 'snapshotPart'; readonly number: number; readonly part: Uint8Array | undefined }
  | { readonly kind: 'health'; readonly score: number }
  | { readonly kind: 'processGone'; readonly id: NodeId; readonly generation: number };
