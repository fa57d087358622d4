/**
 * What the greeter can be told and what it can ask for, as data. Messages keep the shape they have on the wire.
 */
import type { Address, Identity, Peer, StoreWrite } from '../base/ports.ts';
import type { Message } from '../messages/catalogue.ts';
import type { MemberEvent } from './member.ts';

export type GreeterConfig = {
  readonly seeds: readonly Address[];
  readonly helloIntervalMs: number;
  readonly silentAfterMs: number;
  readonly deadAfterMs: number;
  readonly membersMax: number;
};

export type GreeterInput =
  | { readonly kind: 'start'; readonly remembered: readonly Identity[] }
  | { readonly kind: 'introduce'; readonly from: Identity; readonly call: number; readonly known: readonly Identity[] }
  | { readonly kind: 'introduced'; readonly by: Address; readonly self: Identity; readonly known: readonly Identity[] }
  | { readonly kind: 'introductionFailed'; readonly by: Address }
  | { readonly kind: 'hello'; readonly from: Identity; readonly messageId: bigint; readonly known: readonly Identity[] }
  | {
      readonly kind: 'helloAck';
      readonly from: Identity;
      readonly answers: bigint;
      readonly known: readonly Identity[];
    }
  | { readonly kind: 'goodbye'; readonly from: Identity; readonly reason: string }
  | { readonly kind: 'remembered'; readonly ok: boolean }
  | { readonly kind: 'stop'; readonly reason: string };

export type GreeterTimer = { readonly kind: 'greet' } | { readonly kind: 'introduce'; readonly to: Address };

type MessageLike<K extends Message['kind']> = Extract<Message, { readonly kind: K }>;

export type GreeterEffect =
  | { readonly kind: 'request'; readonly to: Address; readonly message: MessageLike<'introduce'> }
  | { readonly kind: 'reply'; readonly call: number; readonly message: MessageLike<'introduced'> }
  | { readonly kind: 'datagram'; readonly to: Peer; readonly message: MessageLike<'hello' | 'helloAck' | 'goodbye'> }
  | { readonly kind: 'notify'; readonly to: Address; readonly message: MessageLike<'goodbye'> }
  /** A hint for the next life. Unlike a `persist` nothing waits for it: a full disk must not make a node silent. */
  | { readonly kind: 'remember'; readonly writes: readonly StoreWrite[] }
  | { readonly kind: 'joined' }
  | { readonly kind: 'event'; readonly event: MemberEvent };
