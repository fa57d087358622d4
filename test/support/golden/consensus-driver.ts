/**
 * Executes the commands of golden/consensus traces and prints messages and decisions. Messages take 5 ms, writes 1 ms.
 *
 *   options snapshotEntriesMax=10         for voters that start from here on
 *   group 3 (n1 to n3, until one leads)   bootstrap 3 (n1 to n3, without waiting)
 *   start n4 (a new voter, or a restart on its disk)    kill n1
 *   run 300 [quietly | heartbeats]        prints only events, or heartbeats too
 *   propose n1 a b c     barrier n1       health n1 6     full n1, free n1 (its disk)
 *   cut n1 n2    cut n1>n2 (one way)      isolate n1      heal
 *   add n1 n4    promote n1 n4            remove n1 n2    transfer n1 [n2]      (requested of n1)
 *   timeout-now n2 from n1                delivers a timeout now as if n1 had sent it
 *   gone n1                               reports the end of the process of n1 to the others
 *   view (of all)                         items (of all)
 */
import assert from 'node:assert/strict';
import type { Outcome } from '../../../src/base/errors.ts';
import type { GroupChange } from '../../../src/consensus/state/state-machine.ts';
import type { ConsensusMessage } from '../../../src/messages/consensus.ts';
import { formatConsensusMessage, isHeartbeat } from './consensus-format.ts';
import { ConsensusTestCluster, addressOf, idOf, nameOf } from '../consensus/consensus-cluster.ts';

const callMs = 3_000;

export function consensusDriver(): (command: string) => string {
  const trace = new ConsensusTrace();
  return (command) => {
    trace.execute(command);
    return trace.flush();
  };
}

class ConsensusTrace {
  #lines: string[] = [];
  #show: 'all' | 'events' | 'messages' = 'messages';
  readonly #world = new ConsensusTestCluster({
    onSend: (from, to, message) => this.#onSend(from, to, message),
    onEvent: (at, text) => this.#trace(`${at} ${text}`),
  });
  /** Links whose replies belong to heartbeats, which are not printed. */
  readonly #quiet = new Set<string>();

  flush(): string {
    const text = this.#lines.join('\n');
    this.#lines = [];
    return text === '' ? 'nothing' : text;
  }

  execute(command: string): void {
    const [verb = '', target = '', ...rest] = command.split(' ');
    const world = this.#world;
    const commands: Readonly<Record<string, () => void>> = {
      options: () => this.#set([target, ...rest]),
      group: () => this.#group(Number(target)),
      bootstrap: () => this.#bootstrap(Number(target)),
      start: () => void world.start(target),
      kill: () => world.kill(target),
      run: () => this.#run(Number(target), rest[0]),
      propose: () => this.#propose(target, rest),
      barrier: () => world.voter(target).host.readBarrier(callMs, this.#ended(`${target} read barrier`)),
      health: () => world.voter(target).host.healthChanged(Number(rest[0])),
      full: () => void (world.voter(target).diskFull = true),
      free: () => void (world.voter(target).diskFull = false),
      cut: () => this.#cut(target, rest[0]),
      isolate: () => world.isolate(target),
      heal: () => world.heal(),
      add: () => this.#change(target, { kind: 'add', member: memberOf(rest[0] ?? '') }),
      promote: () => this.#change(target, { kind: 'promote', id: idOf(rest[0] ?? '') }),
      remove: () => this.#change(target, { kind: 'remove', id: idOf(rest[0] ?? '') }),
      transfer: () => this.#transfer(target, rest[0]),
      'timeout-now': () => this.#timeoutNow(target, rest[1] ?? ''),
      gone: () => this.#gone(target),
      view: () => this.#view(),
      items: () => this.#items(),
    };
    const run = commands[verb];
    assert.ok(run !== undefined, `unknown command ${command}`);
    run();
  }

  #set(settings: readonly string[]): void {
    const changed = settings.map((word) => word.split('=')).map(([name = '', value]) => [name, Number(value)]);
    for (const [name = ''] of changed) assert.ok(name in this.#world.options, `there is no option ${name}`);
    this.#world.options = { ...this.#world.options, ...Object.fromEntries(changed) };
  }

  #bootstrap(count: number): void {
    this.#world.group(...Array.from({ length: count }, (_, i) => `n${i + 1}`));
  }

  #group(count: number): void {
    this.#bootstrap(count);
    this.#world.untilLeader();
    this.#world.run(200);
    this.#lines = [`${this.#now} ${this.#world.leader()} leads`];
  }

  #run(forMs: number, how: string | undefined): void {
    this.#show = how === 'quietly' ? 'events' : how === 'heartbeats' ? 'all' : 'messages';
    this.#world.run(forMs);
    this.#show = 'messages';
  }

  #propose(key: string, texts: readonly string[]): void {
    for (const text of texts) {
      this.#world
        .voter(key)
        .host.propose(new TextEncoder().encode(text), callMs, this.#ended(`${key} propose ${text}`));
    }
  }

  #cut(links: string, other: string | undefined): void {
    const [from = '', to = ''] = other === undefined ? links.split('>') : [links, other];
    this.#world.cut(from, to, other === undefined);
  }

  #change(key: string, change: GroupChange): void {
    const name = nameOf(change.kind === 'add' ? change.member.id : change.id);
    this.#world.voter(key).host.change(change, callMs, this.#ended(`${key} ${change.kind} ${name}`));
  }

  #transfer(key: string, to: string | undefined): void {
    const ended = this.#ended(`${key} transfer${to === undefined ? '' : ` to ${to}`}`);
    this.#world.voter(key).host.transfer(to === undefined ? undefined : idOf(to), callMs, ended);
  }

  #timeoutNow(key: string, from: string): void {
    const { term } = this.#world.voter(key).host.view();
    this.#world
      .voter(key)
      .host.onMessage(this.#world.voter(from).self, { kind: 'timeoutNow', group: 'g', term, round: 99 });
  }

  #gone(key: string): void {
    const { id, generation } = this.#world.voter(key).self;
    for (const other of this.#world.keys)
      if (other !== key) this.#world.voter(other).host.onProcessGone(id, generation);
  }

  #view(): void {
    for (const key of this.#world.keys) {
      const { host, alive } = this.#world.voter(key);
      const { self, term, leader, commitIndex, members } = host.view();
      if (!alive) continue;
      const name = leader === undefined ? 'no leader' : `leader ${nameOf(leader)}`;
      const serves = host.leadership.isLeading() ? ', serves' : '';
      const names = members.map(({ name, standing }) => (standing === 'voter' ? name : `${name} (${standing})`));
      this.#lines.push(`${key} ${self}${serves}, term ${term}, ${name}, commit ${commitIndex}, of ${names.join(' ')}`);
    }
  }

  #items(): void {
    for (const key of this.#world.keys) {
      const { stateMachine, alive } = this.#world.voter(key);
      if (alive) this.#lines.push(`${key}: ${stateMachine.items.join(' ')}`);
    }
  }

  #ended(what: string): (outcome: Outcome<unknown>) => void {
    return (outcome) =>
      this.#trace(`${what}: ${outcome.ok ? 'done' : `${outcome.error.code}, ${outcome.error.message}`}`);
  }

  #onSend(from: string, to: string, message: ConsensusMessage): void {
    if (this.#show === 'events') return;
    const isQuiet = isHeartbeat(message);
    if (isQuiet) this.#quiet.add(`${to}>${from}`);
    else if (message.kind === 'appendEntries') this.#quiet.delete(`${to}>${from}`);
    const answers = message.kind === 'appendEntriesReply' && message.ok && this.#quiet.has(`${from}>${to}`);
    if (this.#show !== 'all' && (isQuiet || answers)) return;
    this.#trace(`${from} -> ${to} ${formatConsensusMessage(from, message)}`);
  }

  #trace(text: string): void {
    this.#lines.push(`${this.#now} ${text}`);
  }

  get #now(): string {
    return this.#world.nowMs.toFixed(0).padStart(6);
  }
}

function memberOf(key: string): { id: ReturnType<typeof idOf>; name: string; host: string; port: number } {
  return { id: idOf(key), name: key, ...addressOf(key) };
}
