/**
 * Orders workflows with unassigned units: priority, then round-robin over submitters, then first come first served.
 * Knows no workers.
 */
import type { ManagedWorkflow } from '../model/managed-job.ts';

type Lane = { readonly submitter: string; readonly workflows: Set<ManagedWorkflow> };

export class RunQueue {
  /** By priority, 0 to 9; within one in the order of turns. */
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
   * Offers them in order, one of each submitter in turn, until `offer` answers 'stop'. 'taken' uses up the turn of the
   * submitter, 'passed' leaves it to the next of the same submitter, up to `passedMax` of them.
   */
  dispatch(offer: (workflow: ManagedWorkflow) => 'taken' | 'passed' | 'stop', passedMax: number): void {
    for (let priority = 9; priority >= 0; priority--) {
      const lanes = this.#lanes[priority] as Lane[];
      let idle = 0;
      while (lanes.length > 0 && idle < lanes.length) {
        const lane = lanes[0] as Lane;
        const verdict = offerLane(lane, offer, passedMax);
        if (verdict === 'stop') return;
        idle = verdict === 'taken' ? 0 : idle + 1;
        // Whoever had a turn goes to the end, unless all of it was given and it is gone.
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
  offer: (workflow: ManagedWorkflow) => 'taken' | 'passed' | 'stop',
  passedMax: number,
): 'taken' | 'passed' | 'stop' {
  let passed = 0;
  for (const workflow of lane.workflows) {
    const verdict = offer(workflow);
    if (verdict !== 'passed') return verdict;
    passed += 1;
    if (passed >= passedMax) break;
  }
  return 'passed';
}
