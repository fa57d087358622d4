/**
 * A network of Linux namespaces for processes; a partition moves links to another bridge, so packets are lost silently
 * and connections stay open.
 */
import { execFileSync } from 'node:child_process';
import type { TestContext } from 'node:test';
import { installDebianPackage } from '../../../scripts/debian-packages.ts';

export const namespacesPackage = { packageName: 'iproute2', command: 'ip', check: ['-V'] };

const hub = `remuster-${process.pid}-hub`;
/** On this machine, to reach the processes whatever happens between them. The block is reserved for such purposes. */
const ownBridge = `rm${process.pid}`;
const ownNet = `198.18.${process.pid % 250}`;
const commonNet = '198.19.0';

/** Why there can be no such network here; undefined when there can. `said` hears what is installed for it. */
export function networkUnavailableReason(said: (text: string) => unknown): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces are known to Linux only';
  if (process.getuid?.() !== 0) return 'only root can make network namespaces';
  return installDebianPackage(namespacesPackage, said);
}

export class NamespacedNetwork {
  readonly #size: number;

  constructor(context: TestContext, size: number) {
    this.#size = size;
    context.after(() => this.#remove());
    try {
      ip('netns', 'add', hub);
    } catch (error) {
      throw new Error('this machine has root and ip, and still refuses to make network namespaces', { cause: error });
    }
    for (const side of ['east', 'west']) {
      ip('-n', hub, 'link', 'add', side, 'type', 'bridge');
      ip('-n', hub, 'link', 'set', side, 'up');
    }
    ip('link', 'add', ownBridge, 'type', 'bridge');
    ip('address', 'add', `${ownNet}.254/24`, 'dev', ownBridge);
    ip('link', 'set', ownBridge, 'up');
    for (let place = 1; place <= size; place++) this.#addPlace(place);
  }

  /** Where the process at that place, from 1 on, is reached by the others. */
  host(place: number): string {
    return `${commonNet}.${place}`;
  }

  /** Where the test reaches it, always. */
  ownHost(place: number): string {
    return `${ownNet}.${place}`;
  }

  /** The words to start a program there. */
  commandPrefix(place: number): readonly string[] {
    return ['ip', 'netns', 'exec', namespaceOf(place)];
  }

  /** These hear each other and nobody else. */
  partition(places: readonly number[]): void {
    for (const place of places) ip('-n', hub, 'link', 'set', `port${place}`, 'master', 'west');
  }

  heal(): void {
    for (let place = 1; place <= this.#size; place++) ip('-n', hub, 'link', 'set', `port${place}`, 'master', 'east');
  }

  #addPlace(place: number): void {
    const name = namespaceOf(place);
    ip('netns', 'add', name);
    ip('-n', name, 'link', 'set', 'lo', 'up');
    ip('-n', hub, 'link', 'add', `port${place}`, 'type', 'veth', 'peer', 'name', 'common', 'netns', name);
    ip('-n', hub, 'link', 'set', `port${place}`, 'master', 'east', 'up');
    ip('-n', name, 'address', 'add', `${this.host(place)}/24`, 'dev', 'common');
    ip('-n', name, 'link', 'set', 'common', 'up');
    ip('link', 'add', `${ownBridge}v${place}`, 'type', 'veth', 'peer', 'name', 'own', 'netns', name);
    ip('link', 'set', `${ownBridge}v${place}`, 'master', ownBridge, 'up');
    ip('-n', name, 'address', 'add', `${this.ownHost(place)}/24`, 'dev', 'own');
    ip('-n', name, 'link', 'set', 'own', 'up');
  }

  /** Links end with the namespace that they lead to. */
  #remove(): void {
    for (let place = 1; place <= this.#size; place++) quietly('netns', 'del', namespaceOf(place));
    quietly('netns', 'del', hub);
    quietly('link', 'del', ownBridge);
  }
}

function namespaceOf(place: number): string {
  return `remuster-${process.pid}-${place}`;
}

function ip(...words: readonly string[]): void {
  execFileSync('ip', words, { stdio: 'pipe', timeout: 30_000 });
}

/** Also what was only half made is removed. */
function quietly(...words: readonly string[]): void {
  try {
    ip(...words);
  } catch {
    // It was never there.
  }
}
