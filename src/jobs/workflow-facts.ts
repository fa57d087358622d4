/**
 * Owns what managers know of a workflow: numbers and flags, no code. The submitter derives it, managers validate it and
 * never run anything.
 */
export type WorkflowStyle = 'load' | 'batch';

/**
 * What a failed item means: `fail` lets the others run, and more than `maxFailures` fail the workflow; `stop` begins
 * nothing after the first one; `continue` tolerates all as long as one item completes.
 */
export const itemErrorPolicies = ['fail', 'stop', 'continue'] as const;
export type ItemErrorPolicy = (typeof itemErrorPolicies)[number];

/** A threshold on `failed` decides alone how a batch ends. */
export function hasFailedThreshold({ thresholds }: Pick<WorkflowFacts, 'thresholds'>): boolean {
  return (thresholds['failed']?.length ?? 0) > 0;
}

/** Users (or iterations per second, where the workflow has a rate) go straight to `target` within `durationMs`. */
export type LoadStage = { readonly durationMs: number; readonly target: number };

export type WorkflowFacts = {
  readonly name: string;
  readonly style: WorkflowStyle;
  /** How many cores it may have at one time. Each core runs one unit at a time. */
  readonly cores: number;
  /** Names of workflows of the same job that have to be completed first. */
  readonly after: readonly string[];
  /** From the first dispatch to the end, in all states; WORKFLOW_TIMEOUT beyond. */
  readonly timeoutMs: number;
  /** How often a unit that was lost with its worker or runner begins anew elsewhere. 0 is at most once. */
  readonly maxRetries: number;
  /** May its code use the network? */
  readonly network: boolean;
  readonly memoryMb: number;
  readonly hasSetup: boolean;
  readonly hasTeardown: boolean;
  /** By metric: conditions such as `p(99)<250ms`. */
  readonly thresholds: Readonly<Record<string, readonly string[]>>;
  readonly load?: LoadFacts;
  readonly batch?: BatchFacts;
};

export type LoadFacts = {
  readonly vus: number;
  /** Undefined: until all iterations are done. */
  readonly durationMs?: number;
  /** Of all users together. Undefined: until the time is over. */
  readonly iterations?: number;
  readonly stages?: readonly LoadStage[];
  /** Arrivals per second, whatever the answers take; with stages it is where they begin. */
  readonly ratePerSecond?: number;
  readonly steps: readonly { readonly name: string; readonly after: readonly string[] }[];
};

export type BatchFacts = {
  /** Undefined when only its code knows (`items` is a function): a first unit finds out. */
  readonly items?: number;
  /** The first item whose `each` gives something other than undefined, null or false ends the workflow. */
  readonly firstOnly: boolean;
  /** How many items a core works on at one time. */
  readonly concurrency: number;
  /** Items of one unit at most; what is lost with a worker is at most so much work. */
  readonly unitItemsMax: number;
  /** Are the values that `each` gives kept as the result? */
  readonly keepResults: boolean;
  /** `fail` if left out. */
  readonly onItemError?: ItemErrorPolicy;
  /** So many failed items make it PARTIAL instead of FAILED; 0 if left out. */
  readonly maxFailures?: number;
};
