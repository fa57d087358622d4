/**
 * How commands find the dev clusters of this user: a state file in the data directory, and a pointer to it in the
 * runtime directory. Both have the same nonce, so a pointer that a crash left behind leads nowhere. Signals no process.
 */
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { RemusterError } from '../../base/errors.ts';

export type DevNode = {
  readonly id: string;
  readonly name: string;
  readonly pid: number;
  readonly roles: readonly string[];
  readonly dc: string;
  readonly host: string;
  readonly port: number;
  readonly httpPort: number;
};

export type DevState = {
  readonly pid: number;
  readonly nonce: string;
  readonly root: string;
  /** The data directory is removed with the cluster. */
  readonly temporary: boolean;
  /** URL of the control server of the dev process; the nonce is its password. */
  readonly control: string;
  readonly admin: string;
  readonly token: string;
  readonly nodes: readonly DevNode[];
};

type Pointer = { readonly pid: number; readonly nonce: string; readonly root: string };

const stateFile = 'dev.json';

export function writeDevState(state: DevState): void {
  const { pid, nonce, root } = state;
  writeFileSync(join(root, stateFile), JSON.stringify(state), { mode: 0o600 });
  mkdirSync(pointersFolder(), { recursive: true, mode: 0o700 });
  checkOwnFolder(pointersFolder());
  writeFileSync(pointerPath(nonce), JSON.stringify({ pid, nonce, root } satisfies Pointer), { mode: 0o600 });
}

/** Removes what writeDevState wrote, and the data directory if it is temporary. The last process to end calls it. */
export function removeDevState(root: string, temporary: boolean): void {
  const state = readDevState(root);
  if (state !== undefined) removePointer(state.nonce);
  rmSync(temporary ? root : join(root, stateFile), {
    recursive: temporary,
    force: true,
    maxRetries: 5,
    retryDelay: 50,
  });
}

/** Dev clusters of this user whose process is alive. */
export function runningDevClusters(): DevState[] {
  return pointers()
    .filter((pointer) => isAlive(pointer.pid))
    .map((pointer) => matchingState(pointer))
    .filter((state) => state !== undefined);
}

/** The dev cluster that runs, if exactly one does: never a guess between several. */
export function onlyDevCluster(): DevState | undefined {
  const running = runningDevClusters();
  return running.length === 1 ? running[0] : undefined;
}

/** A dev cluster is named by its data directory, or by the HTTP address of one of its nodes. */
export type DevClusterName = { readonly root?: string | undefined; readonly addr?: string | undefined };

export function devClusterAt({ root, addr }: DevClusterName): DevState {
  const running = runningDevClusters();
  const found = running.filter(
    (state) => (root === undefined || state.root === root) && (addr === undefined || hasNodeAt(state, addr)),
  );
  const choices = running.map((state) => `--addr ${state.admin} (--data ${state.root})`).join(', ');
  if (found.length > 1) throw new RemusterError('BAD_ARGUMENT', `several dev clusters run: choose one with ${choices}`);
  const [only] = found;
  if (only !== undefined) return only;
  if (running.length === 0)
    throw new RemusterError(
      'UNREACHABLE',
      'no dev cluster of this user runs on this machine: start one with `remuster dev`',
    );
  const wanted = [addr, root].filter((part) => part !== undefined).join(' with data in ');
  throw new RemusterError(
    'BAD_ARGUMENT',
    `${wanted} is not a dev cluster of this user on this machine; choose ${choices}`,
  );
}

/** The token of the dev cluster that has a node at this address: a user who can read the state file may use it. */
export function devTokenOf(addr: string): string | undefined {
  return runningDevClusters().find((state) => hasNodeAt(state, addr))?.token;
}

function hasNodeAt({ admin, nodes }: DevState, addr: string): boolean {
  const wanted = hostPortOf(addr);
  return [admin, ...nodes.map((node) => `${node.host}:${node.httpPort}`)].some((own) => hostPortOf(own) === wanted);
}

function hostPortOf(addr: string): string {
  const text = addr.includes('://') ? addr : `http://${addr}`;
  return URL.canParse(text) ? new URL(text).host.replace(/^localhost:/, '127.0.0.1:') : addr;
}

/** Removes what crashed dev clusters left behind, once the dev process and all its nodes have ended. */
export function removeDeadDevClusters(): void {
  for (const pointer of pointers()) {
    if (isAlive(pointer.pid)) continue;
    const state = matchingState(pointer);
    if (state === undefined) removePointer(pointer.nonce);
    else if (state.nodes.every((node) => !isAlive(node.pid))) removeDevState(state.root, state.temporary);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function pointersFolder(): string {
  return join(
    process.env['XDG_RUNTIME_DIR'] || tmpdir(),
    `remuster-${userInfo().username.replaceAll(/[^\w.-]/g, '_')}`,
  );
}

function pointerPath(nonce: string): string {
  return join(pointersFolder(), `dev-${nonce}.json`);
}

function removePointer(nonce: string): void {
  rmSync(pointerPath(nonce), { force: true });
  try {
    rmdirSync(pointersFolder());
  } catch {
    // The folder is not empty: another dev cluster runs.
  }
}

function pointers(): Pointer[] {
  try {
    checkOwnFolder(pointersFolder());
    return readdirSync(pointersFolder())
      .filter((file) => /^dev-[0-9a-f]{32}\.json$/.test(file))
      .map((file) => readJson(join(pointersFolder(), file)) as Pointer | undefined)
      .filter(
        (pointer) => pointer !== undefined && /^[0-9a-f]{32}$/.test(pointer.nonce) && Number.isSafeInteger(pointer.pid),
      )
      .filter((pointer) => pointer !== undefined);
  } catch (error) {
    if (error instanceof RemusterError) throw error;
    return [];
  }
}

/** The temporary folder is shared by all users: a folder that another user created is refused. */
function checkOwnFolder(folder: string): void {
  const { uid } = lstatSync(folder);
  if (process.getuid !== undefined && uid !== process.getuid()) {
    throw new RemusterError('FORBIDDEN', `${folder} belongs to another user: remove it, or set XDG_RUNTIME_DIR`);
  }
}

function matchingState(pointer: Pointer): DevState | undefined {
  const state = readDevState(pointer.root);
  return state?.nonce === pointer.nonce && state.pid === pointer.pid ? state : undefined;
}

export function readDevState(root: string): DevState | undefined {
  return readJson(join(root, stateFile)) as DevState | undefined;
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as unknown;
  } catch {
    return undefined;
  }
}
