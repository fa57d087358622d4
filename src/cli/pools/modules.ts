/**
 * `remuster module deploy|list|show`: bundles a module, deploys it and follows the roll-out. Never runs its code in
 * this process.
 */
import { createHash } from 'node:crypto';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { bundleModule } from '../../io/bundle/bundler.ts';
import type {
  ModuleRow,
  ModuleDetails,
  ModulePoolStatus,
  ModuleVersionView,
} from '../../placement/modules/module-views.ts';
import { moduleLimits } from '../../placement/modules/module-records.ts';
import { exitFailed, exitOk, exitPartial } from '../command/exit.ts';
import { sendJson, getJson, withDc, postJson } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList, renderObject } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';
import { pollUntil } from '../command/poll.ts';
import { printOrWatch } from '../command/watch.ts';

type Flags = TargetFlags & { readonly output: OutputFormat; readonly dc?: string };

/** The node loads the bundle in a check process before it replies. */
const deployTimeoutMs = 60_000;
/** After this many failed owners in a row the command stops waiting; the placer keeps trying. */
const failuresMax = 3;

const moduleColumns: readonly Column<ModuleRow>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'VERSION', cell: (row) => String(row.version) },
  { title: 'VERSIONS', wide: true, cell: (row) => String(row.versions) },
  { title: 'BYTES', wide: true, cell: (row) => String(row.bytes) },
  { title: 'DEPLOYED', cell: (row) => row.deployedAt ?? 'from the options of nodes' },
  { title: 'LOADED BY', cell: (row) => row.loadedBy.join(',') },
];

const versionColumns: readonly Column<ModuleVersionView>[] = [
  { title: 'VERSION', cell: (row) => String(row.version) },
  { title: 'DEPLOYED', cell: (row) => row.deployedAt ?? 'from the options of nodes' },
  { title: 'BYTES', cell: (row) => String(row.bytes) },
  { title: 'SHA-256', wide: true, cell: (row) => row.sha256 ?? '' },
  { title: 'LOADED BY', cell: (row) => row.loadedBy.join(',') },
  { title: 'MISSING ON', cell: (row) => row.missingOn.join(',') },
];

const poolColumns: readonly Column<ModulePoolStatus>[] = [
  { title: 'POOL', cell: (row) => row.name },
  { title: 'RUNS', cell: (row) => String(row.moduleVersion) },
  { title: 'CONTAINERS', cell: (row) => `${row.current} of ${row.containers}` },
  { title: 'NOTE', cell: (row) => (row.failing === null ? '' : failureText(row)) },
];

function modulePath(name: string, verb = ''): string {
  return `/v1/modules/${encodeURIComponent(name)}${verb}`;
}

export async function moduleListCommand(flags: Flags & { readonly watch?: true }): Promise<number> {
  const target = await resolveTarget(flags);
  return await printOrWatch(flags.output, flags.watch === true, async () => {
    const { items } = (await getJson(target, withDc('/v1/modules', flags.dc))) as { items: ModuleRow[] };
    return { text: await renderList(flags.output, items, moduleColumns, (row) => row.name) };
  });
}

export async function moduleShowCommand(name: string, flags: Flags & { readonly watch?: true }): Promise<number> {
  const target = await resolveTarget(flags);
  const { output } = flags;
  return await printOrWatch(output, flags.watch === true, async () => {
    const module = await moduleOf(target, name, flags.dc);
    if (output !== 'table' && output !== 'wide')
      return { text: await renderObject(output, module, { name, lines: [] }) };
    const versions = await renderList(output, module.versions, versionColumns, (row) => String(row.version));
    const pools = await renderList(output, module.pools, poolColumns, (row) => row.name);
    const poolsText = module.pools.length === 0 ? 'no pool runs this module' : pools;
    return { text: `${stripControls(module.name)}\n\n${versions}\n\n${poolsText}` };
  });
}

async function moduleOf(target: ClusterTarget, name: string, dc?: string): Promise<ModuleDetails> {
  const reply = await getJson(target, withDc(modulePath(name), dc));
  const { schemaVersion: _, ...module } = reply as ModuleDetails & { schemaVersion: number };
  return module;
}

export type ModuleDeployFlags = Flags & {
  readonly name?: string;
  /** False with `--no-roll`. */
  readonly roll: boolean;
  readonly timeout: string;
  readonly detach?: true;
  readonly reason?: string;
};

type DeployAnswer = {
  readonly name: string;
  readonly version: number;
  readonly deployed: boolean;
  readonly bytes: number;
  readonly sha256: string;
};

export async function moduleDeployCommand(file: string, flags: ModuleDeployFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const deployed = await upload(target, file, flags);
  const { name, version } = deployed;
  const what = deployed.deployed ? `deployed as version ${version}` : `version ${version} was deployed before`;
  printNotice(`${stripControls(name)}: ${what}`);
  const rollResult = flags.roll ? await roll(target, deployed, flags) : undefined;
  const pools = rollResult?.pools ?? [];
  const result = { ...deployed, pools };
  const lines: [string, string][] = [
    ['MODULE', `${name}, version ${version}`],
    ['BYTES', String(deployed.bytes)],
    ['POOLS', pools.map((pool) => progressText(pool)).join('; ') || (flags.roll ? 'none' : 'unchanged (--no-roll)')],
  ];
  printData(await renderObject(flags.output, result, { name, lines }));
  if (rollResult?.failed !== undefined) printNotice(stripControls(`the roll-out has stopped: ${rollResult.failed}`));
  return rollResult?.exitCode ?? exitOk;
}

async function upload(target: ClusterTarget, file: string, { name, reason }: ModuleDeployFlags): Promise<DeployAnswer> {
  const code = await bundleModule(file);
  if (code.length > moduleLimits.bundleBytesMax)
    throw new RemusterError(
      'TOO_LARGE',
      `the bundle has ${code.length} bytes; the limit is ${moduleLimits.bundleBytesMax}`,
      'no',
    );
  const sha256 = createHash('sha256').update(code).digest('hex');
  const body = { code: Buffer.from(code).toString('base64'), sha256, name, reason };
  const reply = await sendJson(target, 'POST', '/v1/modules', body, deployTimeoutMs);
  const { schemaVersion: _, ...deployed } = reply as DeployAnswer & { schemaVersion: number };
  return deployed;
}

type RollResult = { readonly pools: readonly ModulePoolStatus[]; readonly exitCode: number; readonly failed?: string };

/** Waits until every worker has loaded the version, so that no container waits for it, then rolls it out. */
async function roll(
  target: ClusterTarget,
  { name, version }: DeployAnswer,
  flags: ModuleDeployFlags,
): Promise<RollResult> {
  const loaded = await pollUntil(flags.timeout, async () => {
    const { versions } = await moduleOf(target, name);
    const missing = missingIn(versions, version);
    return { value: missing, isDone: missing.length === 0, text: `loading on ${missing.join(', ')}` };
  });
  if (!loaded.isDone) {
    const failed = `${loaded.value.join(', ')} did not load version ${version} in time, so no pool was changed`;
    return { pools: [], exitCode: exitFailed, failed };
  }
  await requestRoll(target, name, version, flags);
  if (flags.detach === true) return { pools: (await moduleOf(target, name)).pools, exitCode: exitOk };
  const { value: pools, isDone: isComplete } = await pollUntil(flags.timeout, async () => {
    const active = (await moduleOf(target, name)).pools.filter(({ state }) => state === 'active');
    const stopped = active.some(isStopped);
    return { value: active, isDone: stopped || active.every(isDone), text: active.map(progressText).join('; ') };
  });
  const failing = pools.find(isStopped);
  if (failing !== undefined) return { pools, exitCode: exitFailed, failed: failureText(failing) };
  return { pools, exitCode: isComplete ? exitOk : exitPartial };
}

/** Retries while a worker that has just joined still loads the version: the roll is refused until all have it. */
export async function requestRoll(
  target: ClusterTarget,
  name: string,
  version: number,
  flags: ModuleDeployFlags,
): Promise<void> {
  const { reason, timeout } = flags;
  let refusals = 0;
  await pollUntil(timeout, async () => {
    try {
      await postJson(target, modulePath(name, '/roll'), { version, reason });
      return { value: undefined, isDone: true, text: '' };
    } catch (error) {
      if (!isRemusterError(error, 'PRECONDITION')) throw error;
      const missing = await missingOn(target, name, version);
      // The last worker may have loaded it since the refusal: one more attempt decides.
      refusals = missing.length > 0 ? 0 : refusals + 1;
      if (refusals > 1) throw error;
      return { value: undefined, isDone: false, text: error.message };
    }
  });
}

/** Workers that have not loaded the version yet. */
function missingIn(versions: ModuleDetails['versions'], version: number): readonly string[] {
  return versions.find((one) => one.version === version)?.missingOn ?? [];
}

async function missingOn(target: ClusterTarget, name: string, version: number): Promise<readonly string[]> {
  return missingIn((await moduleOf(target, name)).versions, version);
}

function isDone({ current, containers }: ModulePoolStatus): boolean {
  return current === containers;
}

function isStopped({ failing }: ModulePoolStatus): boolean {
  return failing !== null && failing.failures >= failuresMax;
}

function progressText({ name, current, containers }: ModulePoolStatus): string {
  return `${stripControls(name)}: ${current} of ${containers} containers`;
}

function failureText({ name, failing }: ModulePoolStatus): string {
  return `${name}/${failing?.container ?? ''} failed to open ${failing?.failures ?? 0} times: ${failing?.note ?? ''}`;
}
