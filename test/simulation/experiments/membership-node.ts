/**
 * One member of a membership-only cluster and what can happen to its process: blocked, paused, killed, without power.
 *
 *   blocked   no message is received or sent, messages queue up, timers fire (the slow member of the Lifeguard paper)
 *   stalled   nothing happens; missed timers fire at the end, then queued messages are processed (SIGSTOP)
 *   killed    its host closes its connections and refuses new ones (SIGKILL)
 *   off       its host is gone, and its connections stay open at the other side (power loss)
 */
import type { NodeId } from '../../../src/base/ids.ts';
import { type Identity, portClosedReason } from '../../../src/base/ports.ts';
import type { MembershipEffect } from '../../../src/membership/state/context.ts';
import type { Membership } from '../../../src/membership/membership.ts';
import type { MembershipCluster } from './membership-cluster.ts';

type Input = Parameters<Membership['step']>[1];
type Effect = ReturnType<Membership['step']>[number];
type Request = Extract<MembershipEffect, { readonly kind: 'request' }>;
type Datagram = Extract<MembershipEffect, { readonly kind: 'datagram' }>;

export class MembershipNode {
  readonly identity: Identity;
  readonly machine: Membership;
  readonly #group: MembershipCluster;
  readonly #connected = new Set<MembershipNode>();
  #state: 'up' | 'killed' | 'off' = 'up';
  #blocked = false;
  #stalled = false;
  readonly #messages: (() => void)[] = [];
  readonly #timers: (() => void)[] = [];
  readonly #calls = new Map<number, (reply: Request['message']) => void>();
  #nextCall = 1;

  constructor(group: MembershipCluster, identity: Identity, machine: Membership) {
    this.#group = group;
    this.identity = identity;
    this.machine = machine;
  }

  get id(): NodeId {
    return this.identity.id;
  }

  get isUp(): boolean {
    return this.#state === 'up';
  }

  start(seeds: readonly MembershipNode[]): void {
    this.feed({ kind: 'start', seeds: seeds.map(({ identity }) => ({ host: identity.host, port: identity.port })) });
  }

  /** Receives and sends no message for a while. Timers fire. */
  block(forMs: number): void {
    this.#blocked = true;
    this.#group.timeline.after(forMs, () => {
      this.#blocked = false;
      this.#catchUp();
    });
  }

  stall(forMs: number): void {
    this.#stalled = true;
    this.#group.timeline.after(forMs, () => {
      this.#stalled = false;
      this.#catchUp();
    });
  }

  kill(): void {
    this.#state = 'killed';
    const peer = this.identity;
    for (const other of this.#connected) {
      other.#connected.delete(this);
      this.#group.stream(this, other, () =>
        other.onceUnblocked(() =>
          other.feed({ kind: 'connection', change: { kind: 'disconnected', peer, reason: 'reset', graceful: false } }),
        ),
      );
    }
    this.#connected.clear();
  }

  losePower(): void {
    this.#state = 'off';
    for (const other of this.#connected) other.#connected.delete(this);
    this.#connected.clear();
  }

  feed(input: Input): void {
    if (!this.isUp) return;
    this.#perform(this.machine.step(this.#group.nowMs, input));
  }

  /** Runs now, or when the process is neither blocked nor stalled. */
  onceUnblocked(run: () => void): void {
    if (this.#blocked || this.#stalled) this.#messages.push(run);
    else run();
  }

  #catchUp(): void {
    if (this.#stalled) return;
    for (const run of this.#timers.splice(0)) run();
    if (this.#blocked) return;
    for (const run of this.#messages.splice(0)) run();
  }

  #perform(effects: readonly Effect[]): void {
    const { timeline, seen } = this.#group;
    for (const effect of effects) {
      if (effect.kind === 'schedule') {
        const { timer } = effect;
        timeline.at(effect.atMs, () => this.#whenRunning(() => this.feed({ kind: 'expired', timer })));
      } else if (effect.kind === 'datagram') this.onceUnblocked(() => this.#send(effect));
      else if (effect.kind === 'request') this.#request(effect);
      else if (effect.kind === 'reply') this.onceUnblocked(() => this.#onReply(effect));
      else if (effect.kind === 'event') {
        const { type, id, why } = effect.event;
        seen.push({ atMs: timeline.nowMs, observer: this, type, subject: id, why });
      }
    }
  }

  #whenRunning(run: () => void): void {
    if (this.#stalled) this.#timers.push(run);
    else run();
  }

  #send({ to, message }: Datagram): void {
    const target = this.#group.find(to);
    this.#group.messages += 1;
    if (target === undefined || !this.isUp) return;
    const from = this.identity;
    this.#group.carry(this, target, () => {
      if (target.isUp) target.onceUnblocked(() => target.feed({ kind: 'datagram', from, message }));
    });
  }

  #request({ to, message, timeoutMs, purpose }: Request): void {
    const group = this.#group;
    const target = group.find(to);
    let over = false;
    const end = (input: Input): void => {
      if (over) return;
      over = true;
      this.feed(input);
    };
    group.timeline.after(timeoutMs, () => this.#whenRunning(() => end({ kind: 'requestFailed', purpose })));
    if (target === undefined) return;
    const refused = (): void => {
      this.feed({ kind: 'connection', change: { kind: 'refused', address: to, reason: portClosedReason } });
      end({ kind: 'requestFailed', purpose });
    };
    this.#connect(target, refused, () => {
      group.messages += 1;
      const from = this.identity;
      group.stream(this, target, () => {
        if (!target.isUp) return;
        target.onceUnblocked(() => {
          target.#receive(from, message, (reply) => {
            group.messages += 1;
            group.stream(target, this, () =>
              this.onceUnblocked(() => end({ kind: 'response', purpose, message: reply })),
            );
          });
        });
      });
    });
  }

  /** Uses an open connection, or opens one, which takes a round trip. */
  #connect(target: MembershipNode, refused: () => void, connected: () => void): void {
    const group = this.#group;
    this.onceUnblocked(() => {
      if (this.#connected.has(target)) return connected();
      group.stream(this, target, () => {
        if (target.#state === 'off') return;
        group.stream(target, this, () => {
          if (target.#state === 'killed') return this.onceUnblocked(refused);
          if (!this.isUp) return;
          this.#connected.add(target);
          target.#connected.add(this);
          connected();
        });
      });
    });
  }

  #onReply({ call, message }: Effect & { kind: 'reply' }): void {
    const onReply = this.#calls.get(call);
    this.#calls.delete(call);
    onReply?.(message);
  }

  /** Feeds a request; the reply may come in a later step. */
  #receive(from: Identity, message: Request['message'], onReply: (reply: Request['message']) => void): void {
    const call = this.#nextCall++;
    this.#calls.set(call, onReply);
    this.feed({ kind: 'request', from, call, message });
  }
}
