/**
 * Executes the commands of golden/membership traces and prints messages, events and views.
 *
 *   options reapAfterMs=60000              for nodes that start from here on
 *   start n1 [seeds=n2,n3] [membership=push] [roles=manager]
 *   group 5 (n1 to n5 have joined)         mass-join 30 (all at once, with one seed)
 *   run 3000 [quietly | about n3]          prints only events, or only messages from, to or about n3
 *   silence n3 (power loss)  kill n3 (connections break)  stall n3 5000  leave n3  freeze n3, thaw n3 (its main loop)
 *   cut n1 n2    cut n1>n2 (one way)    cut n1~n2 (datagrams only)    heal
 *   deliver n1 from n2 dead:0>10.0.0.3:8000 [life=1]     refuse n1 n3 (a closed port)     members n1
 */
import assert from 'node:assert/strict';
import { type NodeId, nodeIdFrom } from '../../../src/base/ids.ts';
import { type Address, type Identity, type Role, portClosedReason } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { Claim } from '../../../src/membership/state/claim.ts';
import type { MembershipEffect } from '../../../src/membership/state/context.ts';
import { mainLoopBeatMs } from '../../../src/membership/detectors/main-loop-monitor.ts';
import { Membership } from '../../../src/membership/membership.ts';
import { type MembershipOptions, lanMembershipOptions } from '../../../src/membership/state/options.ts';
import { parseTraceMessage } from '../../../src/messages/trace-format.ts';
import type { MembershipMessage } from '../../../src/messages/membership.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { addressOf, labelOf, formatMembershipMessage, nodeKeyOf, mentionedNodes } from './membership-format.ts';

type Input = Parameters<Membership['step']>[1];
type Node = {
  readonly self: Identity;
  readonly machine: Membership;
  state: 'up' | 'killed' | 'silenced';
  frozen: boolean;
  stalled: boolean;
  /** After a stall timers fire first, then messages arrive: the order of an event loop. */
  readonly missed: { readonly timers: (() => void)[]; readonly messages: (() => void)[] };
  readonly peers: Set<Node>;
};
type Request = Extract<MembershipEffect, { readonly kind: 'request' }>;

const delayMs = 5;

type Reply = MembershipEffect & { kind: 'reply' | 'replyError' };

export function membershipDriver(): (command: string) => string {
  const world = new MembershipTestCluster();
  return (command) => {
    world.execute(command);
    return world.flush();
  };
}

class MembershipTestCluster {
  readonly #timeline = new Timeline();
  readonly #nodes = new Map<string, Node>();
  readonly #generations = new Map<string, number>();
  readonly #cuts = new Set<string>();
  readonly #calls = new Map<number, (reply: Reply) => void>();
  #nextCall = 1;
  #options: MembershipOptions = lanMembershipOptions;
  #lines: string[] = [];
  #show: 'all' | 'events' | NodeId = 'all';

  flush(): string {
    const text = this.#lines.join('\n');
    this.#lines = [];
    return text === '' ? 'nothing' : text;
  }

  execute(command: string): void {
    const [verb = '', target = '', ...rest] = command.split(' ');
    const commands: Readonly<Record<string, () => void>> = {
      options: () => this.#set([target, ...rest]),
      start: () => this.#start(target, Object.fromEntries(rest.map((word) => word.split('=')))),
      group: () => this.#group(Number(target)),
      'mass-join': () => this.#massJoin(Number(target)),
      run: () => this.#run(Number(target), rest),
      silence: () => this.#end(target, 'silenced'),
      kill: () => this.#end(target, 'killed'),
      stall: () => this.#stall(this.#node(target), Number(rest[0])),
      leave: () => this.#feed(this.#node(target), { kind: 'leave', reason: 'maintenance' }),
      freeze: () => void (this.#node(target).frozen = true),
      thaw: () => void (this.#node(target).frozen = false),
      cut: () => this.#cut(target, rest[0]),
      heal: () => this.#cuts.clear(),
      deliver: () => this.#deliver(this.#node(target), this.#node(rest[1] ?? ''), rest[2] ?? '', rest[3]),
      refuse: () => this.#refuse(this.#node(target), this.#node(rest[0] ?? '').self),
      members: () => this.#members(this.#node(target)),
    };
    const run = commands[verb];
    assert.ok(run !== undefined, `unknown command ${command}`);
    run();
  }

  #set(settings: readonly string[]): void {
    const changed = settings.map((word) => word.split('=')).map(([name = '', value]) => [name, Number(value)]);
    for (const [name = ''] of changed) assert.ok(name in this.#options, `there is no option ${name}`);
    this.#options = { ...this.#options, ...Object.fromEntries(changed) };
  }

  #group(count: number): void {
    this.#massJoin(count);
    this.#run(10_000 - this.#timeline.nowMs, ['quietly']);
    this.#lines = [`${this.#now} n1 to n${count} have joined`];
  }

  #massJoin(count: number): void {
    const sinceMs = this.#timeline.nowMs;
    for (let place = 1; place <= count; place++) this.#start(`n${place}`, place === 1 ? {} : { seeds: 'n1' });
    const isComplete = (): boolean =>
      [...this.#nodes.values()].every(({ machine }) => {
        const states = [...machine.members].map(({ state }) => state);
        return states.length === count - 1 && states.every((state) => state === 'alive');
      });
    while (!isComplete() && this.#timeline.nowMs < sinceMs + 10_000) this.#run(10, ['quietly']);
    this.#lines = [`${this.#now} ${isComplete() ? `all ${count} have joined` : 'some have not joined'}`];
  }

  #start(key: string, settings: Readonly<Record<string, string>>): void {
    const generation = (this.#generations.get(key) ?? 0) + 1;
    this.#generations.set(key, generation);
    const id = nodeIdFrom(new Uint8Array(16).fill(Number(key.slice(1))));
    const roles = [(settings['roles'] ?? 'worker') as Role];
    const self: Identity = { id, name: key, ...addressOf(key), generation, roles, dc: 'dc1' };
    const options =
      settings['membership'] === 'push' ? { ...this.#options, membership: 'push' as const } : this.#options;
    const machine = new Membership(self, 0, options, new Random(`${key}/${generation}`));
    const missed = { timers: [], messages: [] };
    const node: Node = { self, machine, state: 'up', frozen: false, stalled: false, missed, peers: new Set() };
    this.#nodes.set(key, node);
    const seeds = (settings['seeds']?.split(',') ?? []).map(addressOf);
    this.#feed(node, { kind: 'start', seeds, watchMainLoop: true });
    this.#beat(node);
  }

  #beat(node: Node): void {
    if (node.state !== 'up') return;
    if (!node.frozen && !node.stalled) this.#feed(node, { kind: 'beat' });
    this.#timeline.after(mainLoopBeatMs(this.#options.stuckAfterMs), () => this.#beat(node));
  }

  #run(forMs: number, [how, about = '']: readonly string[]): void {
    this.#show = how === 'about' ? this.#node(about).self.id : how === 'quietly' ? 'events' : 'all';
    this.#timeline.runUntil(this.#timeline.nowMs + forMs);
    this.#show = 'all';
  }

  #end(key: string, state: 'killed' | 'silenced'): void {
    const node = this.#node(key);
    node.state = state;
    for (const other of node.peers) {
      other.peers.delete(node);
      const change = { kind: 'disconnected', peer: node.self, reason: 'reset', graceful: false } as const;
      if (state === 'killed') this.#carry(node, other, () => this.#feed(other, { kind: 'connection', change }));
    }
  }

  #stall(node: Node, forMs: number): void {
    node.stalled = true;
    this.#timeline.after(forMs, () => {
      node.stalled = false;
      for (const run of [...node.missed.timers.splice(0), ...node.missed.messages.splice(0)]) run();
    });
  }

  #cut(links: string, other: string | undefined): void {
    const [from = '', to = ''] = other === undefined ? links.split(/[>~]/) : [links, other];
    const kinds = links.includes('~') ? ['datagram'] : ['datagram', 'stream'];
    for (const kind of kinds) {
      this.#cuts.add(`${from}>${to} ${kind}`);
      if (!links.includes('>')) this.#cuts.add(`${to}>${from} ${kind}`);
    }
  }

  /** A claim as if `from` had gossiped it, about the current generation at the address or the one that is named. */
  #deliver(node: Node, from: Node, text: string, life: string | undefined): void {
    const sentence = parseTraceMessage(text);
    const subject = this.#node(nodeKeyOf(sentence.address)).self;
    const incarnation = 'incarnation' in sentence ? sentence.incarnation : 0;
    const kind = sentence.verb === 'leave' ? 'left' : (sentence.verb as Claim['kind']);
    const { id } = subject;
    const generation = life === undefined ? subject.generation : Number(life.slice('life='.length));
    const claim: Claim = { kind, id, generation, incarnation, by: from.self.id, refused: false, entry: subject };
    const message: MembershipMessage = { kind: 'gossip', incarnation: from.machine.self.incarnation, claims: [claim] };
    this.#feed(node, { kind: 'datagram', from: from.self, message });
  }

  #refuse(node: Node, address: Address): void {
    this.#feed(node, { kind: 'connection', change: { kind: 'refused', address, reason: portClosedReason } });
  }

  #members(node: Node): void {
    for (const { entry, state, incarnation, stuck } of node.machine.views(this.#timeline.nowMs)) {
      this.#lines.push(`${labelOf(entry)} incarnation ${incarnation} ${state}${stuck ? ', stuck' : ''}`);
    }
  }

  #feed(node: Node, input: Input): void {
    if (node.state !== 'up') return;
    for (const effect of node.machine.step(this.#timeline.nowMs, input)) {
      if (effect.kind === 'schedule') {
        const { timer } = effect;
        const expire = (): void => this.#feed(node, { kind: 'expired', timer });
        this.#timeline.at(effect.atMs, () => (node.stalled ? node.missed.timers.push(expire) : expire()));
      } else if (effect.kind !== 'cancelTimer') this.#perform(node, effect);
    }
  }

  #perform(node: Node, effect: MembershipEffect): void {
    if (effect.kind === 'datagram') {
      const target = this.#traceMessage(node, effect.to, effect.message);
      const { message } = effect;
      if (target !== undefined) {
        this.#carry(node, target, () => this.#feed(target, { kind: 'datagram', from: node.self, message }), 'datagram');
      }
    } else if (effect.kind === 'request') this.#request(node, effect);
    else if (effect.kind === 'reply' || effect.kind === 'replyError') this.#onReply(effect);
    else if (effect.kind === 'requestBeat')
      this.#timeline.after(1, () => {
        if (node.state === 'up' && !node.frozen && !node.stalled) this.#feed(node, { kind: 'beat' });
      });
    else if (effect.kind === 'left') this.#trace(node, 'has left');
    else if (effect.kind === 'event') {
      const { type, id, generation, incarnation, why, accusers, refusedTo } = effect.event;
      const subject = id === node.self.id ? 'itself' : labelOf({ id, generation });
      const evidence = [
        accusers.length === 0 ? '' : `; accused by ${accusers.join(' ')}`,
        refusedTo.length === 0 ? '' : `; refused to ${refusedTo.join(' ')}`,
      ].join('');
      this.#trace(node, `sees ${subject} ${type.split('.')[1]}:${incarnation} (${why}${evidence})`);
    }
  }

  #request(node: Node, { to, message, timeoutMs, purpose }: Request): void {
    const target = this.#traceMessage(node, to, message);
    let ended = false;
    const end = (input: Input): void => {
      if (!ended) this.#feed(node, input);
      ended = true;
    };
    this.#timeline.after(timeoutMs, () => end({ kind: 'requestFailed', purpose }));
    if (target === undefined || target.state === 'silenced') return;
    if (target.state === 'killed') {
      this.#carry(target, node, () => {
        this.#refuse(node, to);
        end({ kind: 'requestFailed', purpose });
      });
      return;
    }
    this.#carry(node, target, () => {
      node.peers.add(target);
      target.peers.add(node);
      const call = this.#nextCall++;
      this.#calls.set(call, (reply) => {
        if (reply.kind === 'replyError') {
          return this.#carry(target, node, () => end({ kind: 'requestFailed', purpose, code: reply.code }));
        }
        this.#traceMessage(target, node.self, reply.message);
        this.#carry(target, node, () => end({ kind: 'response', purpose, message: reply.message }));
      });
      this.#feed(target, { kind: 'request', from: node.self, call, message });
    });
  }

  /** A reply may come in a later step than its request. */
  #onReply(reply: Reply): void {
    const resolve = this.#calls.get(reply.call);
    this.#calls.delete(reply.call);
    resolve?.(reply);
  }

  #carry(from: Node, to: Node, arrive: () => void, kind: 'datagram' | 'stream' = 'stream'): void {
    if (this.#cuts.has(`${from.self.name}>${to.self.name} ${kind}`)) return;
    this.#timeline.after(delayMs, () => (to.stalled ? to.missed.messages.push(arrive) : arrive()));
  }

  #node(key: string): Node {
    const node = this.#nodes.get(key);
    assert.ok(node !== undefined, `there is no ${key}`);
    return node;
  }

  /** Prints a message with sender and receiver, and returns the receiver. */
  #traceMessage(from: Node, to: Address, message: MembershipMessage): Node | undefined {
    const target = this.#nodes.get(nodeKeyOf(to));
    const concerned = [from.self.id, target?.self.id, ...mentionedNodes(message)];
    // The replies of helpers do not name the target.
    const isHelperReply = this.#show !== 'events' && (message.kind === 'nack' || message.kind === 'indirectAck');
    if (this.#show === 'all' || isHelperReply || concerned.includes(this.#show as NodeId)) {
      const addressFor = (id: NodeId): Address => addressOf(labelOf({ id, generation: 1 }));
      this.#lines.push(
        `${this.#now} ${labelOf(from.self)} -> ${nodeKeyOf(to)} ${formatMembershipMessage(message, from.self, to, addressFor)}`,
      );
    }
    return target;
  }

  #trace(node: Node, text: string): void {
    this.#lines.push(`${this.#now} ${labelOf(node.self)} ${text}`);
  }

  get #now(): string {
    return String(Math.round(this.#timeline.nowMs)).padStart(6);
  }
}
