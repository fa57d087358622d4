/**
 * A network of Linux namespaces for processes. A partition moves links to another bridge, so packets are lost and
 * connections stay open.
 */
import { execFileSync } from 'node:child_process';
import type { TestContext } from 'node:test';
import { installDebianPackage } from '../../../scripts/debian-packages.ts';

export const namespacesPackage = { packageName: 'iproute2', command: 'ip', check: ['-V'] };

const hub = `remuster-${process.pid}-hub`;
/**
 * The bridge by which the test reaches all processes, also during a partition. The block is reserved for benchmarks.
 */
const ownBridge = `rm${process.pid}`;
const ownNet = `198.18.${process.pid % 250}`;
const commonNet = '198.19.0';

/**
 * Why this machine cannot have such a network; undefined if it can. `report` gets a line for each installed package.
 */
export function networkUnavailableReason(report: (text: string) => unknown): string | undefined {
  if (process.platform !== 'linux') return 'only Linux has network namespaces';
  if (process.getuid?.() !== 0) return 'only root can create network namespaces';
  return installDebianPackage(namespacesPackage, report);
}

export class NamespacedNetwork {
  readonly #size: number;

  constructor(context: TestContext, size: number) {
    this.#size = size;
    context.after(() => this.#remove());
    try {
      ip('netns', 'add', hub);
    } catch (error) {
      throw new Error('cannot create network namespaces although this process is root and has ip', { cause: error });
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

  /** The address of a place (from 1 on) for the processes at other places. */
  host(place: number): string {
    return `${commonNet}.${place}`;
  }

  /** The address of a place for the test; no partition cuts it. */
  ownHost(place: number): string {
    return `${ownNet}.${place}`;
  }

  /** The command that starts a program at a place. */
  commandPrefix(place: number): readonly string[] {
    return ['ip', 'netns', 'exec', namespaceOf(place)];
  }

  /** Partitions these places from all others. */
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

  /** Deleting a namespace deletes its links. */
  #remove(): void {
    for (let place = 1; place <= this.#size; place++) quietly('netns', 'del', namespaceOf(place));
    quietly('netns', 'del', hub);
    quietly('link', 'del', ownBridge);
  }
}

function namespaceOf(place: number): string {
  return `remuster-${process.pid}-${place}`;
}

function ip(...args: readonly string[]): void {
  execFileSync('ip', args, { stdio: 'pipe', timeout: 30_000 });
}

/** Removes what exists after an incomplete setup too. */
function quietly(...args: readonly string[]): void {
  try {
    ip(...args);
  } catch {
    // It did not exist.
  }
}
