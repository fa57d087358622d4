/**
 * Owns the order of workflows with unassigned units: priority, then round-robin over submitters, then first come first
 * served. Knows no workers.
 */
import type { ManagedWorkflow } from '../model/managed-job.ts';

type Lane = { readonly submitter: string; readonly workflows: Set<ManagedWorkflow> };

export class RunQueue {
  /** By priority, 0 to 9; lanes in round-robin order. */
  readonly #lanes: Lane[][] = Array.from({ length: 10 }, () => []);

  add(workflow: ManagedWorkflow): void {
    const lanes = this.#lanesOf(workflow);
    const { submitter } = workflow.job;
    let lane = lanes.find((one) => one.submitter === submitter);
    if (lane === undefined) {
      lane = { submitter, workflows: new Set() };
      lanes.push(lane);
    }
    lane.workflows.add(workflow);
  }

  delete(workflow: ManagedWorkflow): void {
    const lanes = this.#lanesOf(workflow);
    const at = lanes.findIndex(({ submitter }) => submitter === workflow.job.submitter);
    const lane = lanes[at];
    if (lane?.workflows.delete(workflow) === true && lane.workflows.size === 0) lanes.splice(at, 1);
  }

  has(workflow: ManagedWorkflow): boolean {
    return this.#lanesOf(workflow).some(({ workflows }) => workflows.has(workflow));
  }

  isEmpty(): boolean {
    return this.#lanes.every((lanes) => lanes.length === 0);
  }

  /**
   * Offers workflows in order, one per submitter and round, until `offer` returns 'stop'. 'dispatched' uses the turn of
   * the submitter; 'skipped' passes it to its next workflow, up to `skippedMax` times.
   */
  dispatch(offer: (workflow: ManagedWorkflow) => 'dispatched' | 'skipped' | 'stop', skippedMax: number): void {
    for (let priority = 9; priority >= 0; priority--) {
      const lanes = this.#lanes[priority] as Lane[];
      let idle = 0;
      while (lanes.length > 0 && idle < lanes.length) {
        const lane = lanes[0] as Lane;
        const result = offerLane(lane, offer, skippedMax);
        if (result === 'stop') return;
        idle = result === 'dispatched' ? 0 : idle + 1;
        // The lane moves to the end, unless `offer` removed it because all its units are assigned.
        if (lanes[0] === lane) {
          lanes.shift();
          if (lane.workflows.size > 0) lanes.push(lane);
        }
      }
    }
  }

  clear(): void {
    for (const lanes of this.#lanes) lanes.length = 0;
  }

  #lanesOf(workflow: ManagedWorkflow): Lane[] {
    return this.#lanes[workflow.job.request.priority ?? 0] as Lane[];
  }
}

function offerLane(
  lane: Lane,
  offer: (workflow: ManagedWorkflow) => 'dispatched' | 'skipped' | 'stop',
  skippedMax: number,
): 'dispatched' | 'skipped' | 'stop' {
  let skipped = 0;
  for (const workflow of lane.workflows) {
    const result = offer(workflow);
    if (result !== 'skipped') return result;
    skipped += 1;
    if (skipped >= skippedMax) break;
  }
  return 'skipped';
}
