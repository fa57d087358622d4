/**
 * A handful of greeters on a perfect network, driven by the commands of test/golden/greeting*.txt. Each message takes
 * 5 ms. It shows what the nodes say and see, with virtual milliseconds on the left.
 *
 *   start n1 [seeds=n2,n3] [name=x] [address=n2] [remembers=n2]    run 3000 [quietly]    members n1
 *   crash n1    stop n1    cut n1 n2    heal
 */
import assert from 'node:assert/strict';
import { nodeIdFrom } from '../src/base/ids.ts';
import type { Address, Identity } from '../src/base/ports.ts';
import { Random } from '../src/base/random.ts';
import type { GreeterEffect, GreeterInput, GreeterTimer } from '../src/membership/greeter-words.ts';
import { Greeter } from '../src/membership/greeter.ts';

type Node = { readonly self: Identity; readonly greeter: Greeter };
type Step = { readonly atMs: number; readonly order: number; readonly run: () => void };
type Settings = Readonly<Record<string, string>>;

const delayMs = 5;
const timeoutMs = 500;
const times = { helloIntervalMs: 1_000, silentAfterMs: 3_000, deadAfterMs: 10_000, membersMax: 100 };

export function greetingTrace(): (command: string) => string {
  const world = new World();
  return (command) => {
    world.execute(command);
    return world.flush();
  };
}

class World {
  readonly #nodes = new Map<string, Node>();
  readonly #generations = new Map<string, number>();
  readonly #cuts = new Set<string>();
  #steps: Step[] = [];
  #lines: string[] = [];
  #nowMs = 0;
  #order = 0;
  #quiet = false;

  flush(): string {
    const text = this.#lines.join('\n');
    this.#lines = [];
    return text === '' ? 'nothing' : text;
  }

  execute(command: string): void {
    const [verb, who = '', ...rest] = command.split(' ');
    const settings: Settings = Object.fromEntries(rest.map((word) => word.split('=')));
    if (verb === 'start') this.#start(who, settings);
    else if (verb === 'run') this.#run(Number(who), rest.includes('quietly'));
    else if (verb === 'crash') this.#nodes.delete(who);
    else if (verb === 'stop') this.#stop(who);
    else if (verb === 'cut') this.#cuts.add(`${who} ${rest[0]}`).add(`${rest[0]} ${who}`);
    else if (verb === 'heal') this.#cuts.clear();
    else if (verb === 'members') this.#members(who);
    else assert.fail(`unknown command ${command}`);
  }

  #start(key: string, settings: Settings): void {
    const generation = (this.#generations.get(key) ?? 0) + 1;
    this.#generations.set(key, generation);
    const place = settings['address'] ?? key;
    const self = { ...entryOf(key), ...addressOf(place), name: settings['name'] ?? key, generation };
    const seeds = (settings['seeds']?.split(',') ?? []).map(addressOf);
    const greeter = new Greeter(self, { seeds, ...times }, new Random(key));
    const node = { self, greeter };
    this.#nodes.set(key, node);
    this.#feed(node, { kind: 'start', remembered: (settings['remembers']?.split(',') ?? []).map(entryOf) });
  }

  #stop(key: string): void {
    const node = this.#nodes.get(key);
    if (node !== undefined) this.#feed(node, { kind: 'stop', reason: 'maintenance' });
    this.#nodes.delete(key);
  }

  #run(forMs: number, quietly: boolean): void {
    const endMs = this.#nowMs + forMs;
    this.#quiet = quietly;
    for (;;) {
      this.#steps.sort((a, b) => a.atMs - b.atMs || a.order - b.order);
      const next = this.#steps[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#steps.shift();
      this.#nowMs = next.atMs;
      next.run();
    }
    this.#nowMs = endMs;
    this.#quiet = false;
  }

  #members(key: string): void {
    for (const { entry, state } of this.#nodes.get(key)?.greeter.views(this.#nowMs) ?? []) {
      this.#lines.push(`${called(entry)} generation ${entry.generation} ${state}`);
    }
  }

  #feed(node: Node, input: GreeterInput | { kind: 'expired'; timer: GreeterTimer }): void {
    for (const effect of node.greeter.step(this.#nowMs, input)) {
      if (effect.kind === 'schedule')
        this.#after(effect.atMs - this.#nowMs, node, { kind: 'expired', timer: effect.timer });
      else this.#perform(node, effect);
    }
  }

  #after(waitMs: number, node: Node, input: Parameters<World['feedIfAlive']>[1]): void {
    this.#steps.push({ atMs: this.#nowMs + waitMs, order: this.#order++, run: () => this.feedIfAlive(node, input) });
  }

  feedIfAlive(node: Node, input: GreeterInput | { kind: 'expired'; timer: GreeterTimer }): void {
    if ([...this.#nodes.values()].includes(node)) this.#feed(node, input);
  }

  #perform(node: Node, effect: GreeterEffect): void {
    const { self } = node;
    switch (effect.kind) {
      case 'request':
        return this.#request(node, effect.to, effect.message);
      case 'datagram':
      case 'notify': {
        const { message } = effect;
        this.#said(self, effect.to, message.kind, 'known' in message ? message.known : []);
        return this.#deliver(self, effect.to, (receiver) => this.#feed(receiver, { ...message, from: self }));
      }
      case 'event':
        return this.#note(self, `sees ${called(effect.event.member)} ${effect.event.type} (${effect.event.reason})`);
      case 'joined':
        return this.#note(self, 'has joined');
      case 'remember':
        if (!this.#quiet)
          this.#note(
            self,
            `remembers ${effect.writes.map((write) => (write.value === null ? '-' : '+') + write.key.slice(-1)).join(' ')}`,
          );
        return this.#after(1, node, { kind: 'remembered', ok: true });
      case 'reply':
    }
  }

  #request(node: Node, to: Address, message: (GreeterEffect & { kind: 'request' })['message']): void {
    this.#said(node.self, to, message.kind, message.known);
    let answered = false;
    this.#deliver(node.self, to, (receiver) => {
      const input = { kind: 'introduce', from: node.self, call: 1, known: message.known } as const;
      for (const effect of receiver.greeter.step(this.#nowMs, input)) {
        if (effect.kind === 'schedule') continue;
        if (effect.kind !== 'reply') this.#perform(receiver, effect);
        else {
          this.#said(receiver.self, node.self, effect.message.kind, effect.message.known);
          answered = true;
          this.#deliver(receiver.self, node.self, (asker) => this.#feed(asker, { ...effect.message, by: to }));
        }
      }
    });
    this.#steps.push({
      atMs: this.#nowMs + timeoutMs,
      order: this.#order++,
      run: () => answered || this.feedIfAlive(node, { kind: 'introductionFailed', by: to }),
    });
  }

  #deliver(from: Identity, to: Address, arrive: (receiver: Node) => void): void {
    const run = (): void => {
      const receiver = [...this.#nodes.values()].find(({ self }) => self.host === to.host);
      if (receiver !== undefined && !this.#cuts.has(`${hostKey(from)} ${hostKey(to)}`)) arrive(receiver);
    };
    this.#steps.push({ atMs: this.#nowMs + delayMs, order: this.#order++, run });
  }

  #said(from: Identity, to: Address, what: string, known: readonly Identity[]): void {
    const names = known.map(called).join(' ');
    if (!this.#quiet) this.#note(from, `-> ${hostKey(to)} ${what}${names === '' ? '' : ` knows ${names}`}`);
  }

  #note(self: Identity, text: string): void {
    this.#lines.push(`${String(Math.round(this.#nowMs)).padStart(6)} ${called(self)} ${text}`);
  }
}

function entryOf(key: string): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(Number(key.slice(1))));
  return { id, name: key, ...addressOf(key), generation: 1, roles: ['worker'], dc: 'dc1' };
}

function addressOf(key: string): Address {
  return { host: `10.0.0.${key.slice(1)}`, port: 7_400 };
}

/** The node's key, which its id repeats, and its name if that is another one. */
function called({ id, name }: Identity): string {
  const key = `n${Number.parseInt(id.slice(0, 2), 16)}`;
  return key === name ? key : `${key} named ${name}`;
}

function hostKey(address: Address): string {
  return `n${address.host.slice('10.0.0.'.length)}`;
}
