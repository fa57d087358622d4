/**
 * What managers know of a workflow: numbers and flags, no code. The submitter derives them; managers validate them and
 * never run user code.
 */
export type WorkflowStyle = 'load' | 'batch';

/**
 * What a failed item means. `fail`: the other items run, and more than `maxFailures` failures fail the workflow.
 * `stop`: no item starts after the first failure. `continue`: any number of failures is tolerated if one item
 * completes.
 */
export const itemErrorPolicies = ['fail', 'stop', 'continue'] as const;
export type ItemErrorPolicy = (typeof itemErrorPolicies)[number];

/** True if a threshold on `failed` decides alone how the batch ends. */
export function hasFailedThreshold({ thresholds }: Pick<WorkflowFacts, 'thresholds'>): boolean {
  return (thresholds['failed']?.length ?? 0) > 0;
}

/** Users, or iterations per second if the workflow has a rate, change linearly to `target` within `durationMs`. */
export type LoadStage = { readonly durationMs: number; readonly target: number };

export type WorkflowFacts = {
  readonly name: string;
  readonly style: WorkflowStyle;
  /** Largest number of cores at a time; a core runs one unit at a time. */
  readonly cores: number;
  /** Names of workflows of the same job that must complete first. */
  readonly after: readonly string[];
  /** From the first assignment to the end; WORKFLOW_TIMEOUT beyond. */
  readonly timeoutMs: number;
  /** How often a unit that is lost with its worker or runner is retried on another worker; 0 means at most once. */
  readonly maxRetries: number;
  /** The code may use the network. */
  readonly network: boolean;
  readonly memoryMb: number;
  readonly hasSetup: boolean;
  readonly hasTeardown: boolean;
  /** Conditions such as `p(99)<250ms` by metric. */
  readonly thresholds: Readonly<Record<string, readonly string[]>>;
  readonly load?: LoadFacts;
  readonly batch?: BatchFacts;
};

export type LoadFacts = {
  readonly vus: number;
  /** Undefined: the test ends when all iterations are done. */
  readonly durationMs?: number;
  /** Of all users together. Undefined: the test ends after `durationMs`. */
  readonly iterations?: number;
  readonly stages?: readonly LoadStage[];
  /** Open model: arrivals per second, however long responses take. With stages: the initial rate. */
  readonly ratePerSecond?: number;
  readonly steps: readonly { readonly name: string; readonly after: readonly string[] }[];
};

export type BatchFacts = {
  /** Undefined if `items` is a function: the unit of phase `plan` or `whole` computes them. */
  readonly items?: number;
  /** The first item whose `each` returns something other than undefined, null or false ends the workflow. */
  readonly firstOnly: boolean;
  /** Items that one core processes at a time. */
  readonly concurrency: number;
  /** Largest number of items per unit: a lost worker loses at most that much work per core. */
  readonly unitItemsMax: number;
  /** The values that `each` returns become the result. */
  readonly keepResults: boolean;
  /** Default: `fail`. */
  readonly onItemError?: ItemErrorPolicy;
  /** Up to this number of failed items the batch is PARTIAL instead of FAILED; default: 0. */
  readonly maxFailures?: number;
};
