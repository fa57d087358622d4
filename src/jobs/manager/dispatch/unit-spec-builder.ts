/** Builds the UnitSpec of a unit from recorded data only: every attempt under every leader gets the same bytes. */
import { jobLimits } from '../../limits.ts';
import { type UnitSpec, encodeUnitSpecMessage } from '../../unit-spec.ts';
import { bytesOf } from '../submission/field-checks.ts';
import type { ManagedUnit, ManagedWorkflow } from '../model/managed-job.ts';
import { itemCountOf, evenShare } from '../model/unit-split.ts';

const noEnv: ReadonlyMap<string, string> = new Map();

export function unitSpecBytes(unit: ManagedUnit): Uint8Array {
  const { workflow, number, phase } = unit;
  const { job, facts, planned, units } = workflow;
  const { env } = job.request;
  const { users, iterations, items } = sharesOf(unit);
  return encodeUnitSpecMessage({
    kind: 'unitSpec',
    job: job.id,
    workflow: workflow.index,
    unit: number,
    units: units.length,
    phase,
    bundle: job.request.bundle,
    facts: workflow.factsText,
    env: env === undefined ? noEnv : new Map(Object.entries(env)),
    seed: seedOf(job.seed, workflow.index, number),
    users,
    iterations,
    items,
    data: phase === 'work' || phase === 'finish' ? planned?.data : undefined,
    context: (workflow.context ??= contextOf(workflow)),
    network: facts.network,
    memoryMb: facts.memoryMb,
    timeoutMs: facts.timeoutMs,
    submitter: job.submitter,
  });
}

/** JSON: results of the workflows before this one, by name; one that is too large is left out. */
function contextOf(workflow: ManagedWorkflow): string {
  const { after } = workflow.facts;
  if (after.length === 0) return '{}';
  const parts: string[] = [];
  let size = 2;
  for (const before of workflow.job.workflows) {
    if (before.value === undefined || !after.includes(before.facts.name)) continue;
    const part = `${JSON.stringify(before.facts.name)}:${before.value}`;
    const bytes = bytesOf(part) + 1;
    if (size + bytes > jobLimits.contextBytesMax) continue;
    size += bytes;
    parts.push(part);
  }
  return `{${parts.join(',')}}`;
}

type Shares = Pick<UnitSpec, 'users' | 'iterations' | 'items'>;

const none: Shares = { users: undefined, iterations: undefined, items: undefined };

function sharesOf({ workflow, number, phase }: ManagedUnit): Shares {
  const { facts, planned, units } = workflow;
  if (phase === 'plan' || phase === 'finish') return none;
  const parts = units.length;
  if (facts.load !== undefined) {
    const { vus, iterations } = facts.load;
    return {
      users: { ...evenShare(vus, number, parts), list: undefined },
      iterations: iterations === undefined ? undefined : evenShare(iterations, number, parts).count,
      items: undefined,
    };
  }
  const items = itemCountOf(workflow);
  if (items === undefined) return none;
  const { from, count } = evenShare(items, number, parts);
  const list = planned?.list?.slice(from, from + count);
  const share = { from, count, list: list === undefined ? undefined : JSON.stringify(list) };
  return { users: undefined, iterations: undefined, items: share };
}

/** Differs between units, equal for all attempts of a unit. */
function seedOf(seed: number, workflow: number, unit: number): number {
  let mixed = (seed ^ Math.floor(seed / 2 ** 32)) | 0;
  for (const part of [workflow + 1, unit + 1]) {
    mixed = Math.imul(mixed ^ part, 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    mixed ^= mixed >>> 16;
  }
  return mixed >>> 0;
}
