/**
 * Voters on a perfect network and disk, on virtual time: messages take 5 ms and pass the real codec, writes take 1 ms.
 */
import assert from 'node:assert/strict';
import { type Outcome, failure, success } from '../../../src/base/errors.ts';
import { type NodeId, nodeIdFrom } from '../../../src/base/ids.ts';
import type { Address, Clock, Identity, Store, StoreWrite } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { ConsensusEvent } from '../../../src/consensus/state/effects.ts';
import { ConsensusHost } from '../../../src/consensus/consensus-host.ts';
import { type ConsensusOptions, defaultConsensusOptions } from '../../../src/consensus/state/options.ts';
import type {
  GroupMember,
  AppliedEntry,
  StateMachine,
  SnapshotRestore,
} from '../../../src/consensus/state/state-machine.ts';
import { decodeMessage, encodeMessage } from '../../../src/messages/catalogue.ts';
import type { ConsensusMessage } from '../../../src/messages/consensus.ts';
import { StoreContent } from '../../../src/simulation/engine/store-content.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';

const networkMs = 5;
const diskMs = 1;

export type ConsensusObserver = {
  onSend?(from: string, to: string, message: ConsensusMessage): void;
  onEvent?(at: string, text: string): void;
};

/** A list of texts: each command appends one, and its result is the length. */
export class ListStateMachine implements StateMachine<number> {
  items: string[] = [];

  apply({ command }: AppliedEntry): number {
    return this.items.push(new TextDecoder().decode(command));
  }

  /** One part per item. */
  snapshot(): Iterable<Uint8Array> {
    const items = [...this.items];
    const encoder = new TextEncoder();
    return (function* () {
      yield encoder.encode('[');
      for (const [i, item] of items.entries()) yield encoder.encode(`${i === 0 ? '' : ','}${JSON.stringify(item)}`);
      yield encoder.encode(']');
    })();
  }

  beginRestore(): SnapshotRestore {
    const decoder = new TextDecoder();
    let text = '';
    return {
      add: (part) => void (text += decoder.decode(part, { stream: true })),
      finish: () => void (this.items = JSON.parse(text + decoder.decode()) as string[]),
    };
  }
}

export type Voter = {
  readonly self: Identity;
  readonly host: ConsensusHost<number>;
  readonly stateMachine: ListStateMachine;
  readonly disk: StoreContent;
  alive: boolean;
  diskFull: boolean;
};

export class ConsensusTestCluster {
  readonly timeline = new Timeline();
  readonly #voters = new Map<string, Voter>();
  readonly #cuts = new Set<string>();
  readonly #watcher: ConsensusObserver;
  options: ConsensusOptions = defaultConsensusOptions;
  /** Delays in ms of each copy of a message; usually there is one copy. */
  travel: (message: ConsensusMessage) => readonly number[] = () => [networkMs];

  constructor(watcher: ConsensusObserver = {}) {
    this.#watcher = watcher;
  }

  get nowMs(): number {
    return this.timeline.nowMs;
  }

  /** Starts a voter, or restarts it on its disk. */
  start(key: string, rate = 1): Voter {
    const before = this.#voters.get(key);
    const generation = (before?.self.generation ?? 0) + 1;
    const self: Identity = { id: idOf(key), name: key, ...addressOf(key), generation, roles: ['manager'], dc: 'dc1' };
    const disk = before?.disk ?? new StoreContent();
    const stateMachine = new ListStateMachine();
    const clock = this.#clock(() => voter.alive, rate);
    const host = new ConsensusHost(
      {
        clock,
        streams: { notify: (to, body) => this.#notify(key, to, body) },
        store: this.#store(disk, () => voter),
        random: new Random(`${key}/${generation}`),
        log: () => {},
      },
      { group: 'g', self, options: this.options },
      stateMachine,
      {
        event: (event) => this.#watcher.onEvent?.(key, formatEvent(event)),
        onHalt: (error) => {
          throw error;
        },
      },
    );
    const voter: Voter = { self, host, stateMachine, disk, alive: true, diskFull: false };
    this.#voters.set(key, voter);
    host.start((outcome) => assert.ok(outcome.ok, 'the voter starts'));
    return voter;
  }

  /** Starts new voters and bootstraps the group with them. Does not wait for a leader. */
  group(...keys: readonly string[]): void {
    for (const key of keys) this.start(key);
    this.run(diskMs * 4);
    const members = keys.map(voterOf);
    for (const key of keys) this.voter(key).host.bootstrap(members, (outcome) => assert.ok(outcome.ok, 'bootstrap'));
  }

  voter(key: string): Voter {
    const voter = this.#voters.get(key);
    assert.ok(voter !== undefined, `there is no ${key}`);
    return voter;
  }

  get keys(): readonly string[] {
    return [...this.#voters.keys()];
  }

  kill(key: string): void {
    const voter = this.voter(key);
    voter.alive = false;
    voter.host.stop();
  }

  /** `n1>n2` cuts one way, `n1 n2` both. */
  cut(from: string, to: string, oneWay = false): void {
    this.#cuts.add(`${from}>${to}`);
    if (!oneWay) this.#cuts.add(`${to}>${from}`);
  }

  isolate(key: string): void {
    for (const other of this.keys) if (other !== key) this.cut(key, other);
  }

  heal(): void {
    this.#cuts.clear();
  }

  run(forMs: number): void {
    this.timeline.runUntil(this.timeline.nowMs + forMs);
  }

  /** Runs until the condition holds; fails if it does not in time. */
  until(what: string, holds: () => boolean, withinMs = 10_000): void {
    const endMs = this.nowMs + withinMs;
    while (!holds()) {
      assert.ok(this.nowMs < endMs && this.timeline.step(), `${what}: not within ${withinMs} ms`);
    }
  }

  leader(): string | undefined {
    return this.keys.find((key) => this.voter(key).alive && this.voter(key).host.leadership.isLeading());
  }

  untilLeader(withinMs = 10_000): Voter {
    this.until('a leader', () => this.leader() !== undefined, withinMs);
    return this.voter(this.leader() as string);
  }

  /** The outcome is set when the proposal has ended. */
  propose(key: string, text: string, timeoutMs = 5_000): { outcome?: Outcome<unknown> } {
    const result: { outcome?: Outcome<unknown> } = {};
    this.voter(key).host.propose(new TextEncoder().encode(text), timeoutMs, (outcome) => {
      result.outcome = outcome;
    });
    return result;
  }

  #notify(from: string, to: Address, body: Uint8Array): boolean {
    const key = keyOf(to);
    const copy = body.slice();
    const message = decodeMessage(copy) as ConsensusMessage;
    assert.deepEqual(encodeMessage(message), copy);
    this.#watcher.onSend?.(from, key, message);
    const sender = this.voter(from).self;
    for (const delayMs of this.travel(message)) {
      this.timeline.after(delayMs, () => {
        const target = this.#voters.get(key);
        if (target?.alive === true && !this.#cuts.has(`${from}>${key}`)) target.host.onMessage(sender, message);
      });
    }
    return true;
  }

  #clock(alive: () => boolean, rate: number): Clock {
    return {
      nowMs: () => this.timeline.nowMs * rate,
      wallMs: () => this.timeline.nowMs,
      schedule: (delayMs, run) =>
        this.timeline.after(delayMs / rate, () => {
          if (alive()) run();
        }),
    };
  }

  #store(disk: StoreContent, owner: () => Voter): Store {
    const later = (run: () => void): void => {
      const voter = owner();
      this.timeline.after(diskMs, () => {
        if (voter.alive) run();
      });
    };
    return {
      write: (batch, done) => {
        const copy = batch.map(({ key, value }): StoreWrite => ({ key, value: value?.slice() ?? null }));
        this.timeline.after(0, () =>
          later(() => {
            if (owner().diskFull) return done(failure('STORE_FULL'));
            disk.write(copy);
            done(success(undefined));
          }),
        );
      },
      read: (range, done) => void this.timeline.after(0, () => later(() => done(disk.read(range)))),
      close: (done) => void this.timeline.after(0, () => done(success(undefined))),
    };
  }
}

export function idOf(key: string): NodeId {
  return nodeIdFrom(new Uint8Array(16).fill(Number(key.slice(1))));
}

export function voterOf(key: string): GroupMember {
  return { id: idOf(key), name: key, ...addressOf(key), standing: 'voter' };
}

export function nameOf(id: NodeId): string {
  return `n${Number.parseInt(id.slice(0, 2), 16)}`;
}

export function addressOf(key: string): Address {
  return { host: `10.0.0.${key.slice(1)}`, port: 8_000 };
}

function keyOf({ host }: Address): string {
  return `n${host.slice('10.0.0.'.length)}`;
}

function formatEvent({ type, leader, term, index, why }: ConsensusEvent): string {
  const name = leader === undefined ? '' : ` ${nameOf(leader)}`;
  return `${type}${name} term ${term} index ${index} (${why})`;
}
