/**
 * Splits a workflow into units: `whole`, or `plan`, `work` and `finish`. Deterministic: equal facts give equal units,
 * so only their number is recorded.
 */
import { jobLimits } from '../../limits.ts';
import { finishUnitNumber, planUnitNumber, type UnitPhase } from '../../unit-spec.ts';
import type { WorkflowFacts } from '../../workflow-facts.ts';
import type { ManagedUnit, ManagedWorkflow } from './managed-job.ts';

/** Number of items; undefined until the plan has computed it. */
export function itemCountOf(workflow: Pick<ManagedWorkflow, 'facts' | 'items'>): number | undefined {
  return workflow.items ?? workflow.facts.batch?.items;
}

/** Never more cores than users, iterations or items. */
export function usableCores({
  facts,
  items,
}: {
  readonly facts: WorkflowFacts;
  readonly items: number | undefined;
}): number {
  if (facts.load !== undefined) {
    const { vus, iterations } = facts.load;
    return Math.max(1, Math.min(facts.cores, vus, iterations ?? Infinity));
  }
  return Math.max(1, Math.min(facts.cores, items ?? facts.batch?.items ?? Infinity));
}

export function firstPhaseOf(workflow: ManagedWorkflow): 'whole' | 'plan' | 'work' {
  const { facts } = workflow;
  if (usableCores(workflow) === 1) return 'whole';
  const needsItems = facts.batch !== undefined && facts.batch.items === undefined;
  return facts.hasSetup || needsItems ? 'plan' : 'work';
}

function workUnitCount(workflow: ManagedWorkflow): number {
  const { facts } = workflow;
  const cores = usableCores(workflow);
  if (facts.batch === undefined) return Math.min(cores, jobLimits.unitsMax);
  const items = itemCountOf(workflow) ?? 0;
  if (items === 0) return 0;
  return Math.min(jobLimits.unitsMax, items, Math.max(cores, Math.ceil(items / facts.batch.unitItemsMax)));
}

/** Upper bound from the facts alone. */
export function unitCountMax(facts: WorkflowFacts): number {
  const workflow = { facts, items: undefined } as ManagedWorkflow;
  if (firstPhaseOf(workflow) === 'whole') return 1;
  return facts.batch !== undefined && facts.batch.items === undefined ? jobLimits.unitsMax : workUnitCount(workflow);
}

export type ItemShare = { readonly from: number; readonly count: number };

/** Part `index` of `parts` parts, whose sizes differ by at most 1. */
export function evenShare(total: number, index: number, parts: number): ItemShare {
  const from = Math.floor((total * index) / parts);
  return { from, count: Math.floor((total * (index + 1)) / parts) - from };
}

export function createUnit(workflow: ManagedWorkflow, number: number, phase: UnitPhase): ManagedUnit {
  return {
    workflow,
    number,
    phase,
    state: 'waiting',
    attempts: [],
    end: undefined,
    assignment: undefined,
    liveProgress: undefined,
    output: undefined,
  };
}

/** Creates the units of a phase; all wait, the next one is the last of `waiting`. */
export function createPhaseUnits(workflow: ManagedWorkflow, phase: 'whole' | 'plan' | 'work' | 'finish'): void {
  workflow.phase = phase;
  workflow.active = 0;
  workflow.coresToStart = 1;
  if (phase === 'plan') workflow.plan = createUnit(workflow, planUnitNumber, phase);
  else if (phase === 'finish') workflow.finish = createUnit(workflow, finishUnitNumber, phase);
  else if (phase === 'whole') workflow.units = [createUnit(workflow, 0, phase)];
  else
    workflow.units = Array.from({ length: workUnitCount(workflow) }, (_, number) =>
      createUnit(workflow, number, phase),
    );
  workflow.waiting = currentUnits(workflow).toReversed();
  if (phase === 'work') workflow.coresToStart = Math.min(usableCores(workflow), workflow.units.length);
}

/** Units of the current phase. */
export function currentUnits(workflow: ManagedWorkflow): readonly ManagedUnit[] {
  if (workflow.phase === 'plan') return workflow.plan === undefined ? [] : [workflow.plan];
  if (workflow.phase === 'finish') return workflow.finish === undefined ? [] : [workflow.finish];
  return workflow.units;
}
