/**
 * Public entry point of the package: startNode, connect, module, kv, workflow, errors and their types. Exports nothing
 * else.
 */
export { type ErrorCode, RemusterError, isRemusterError } from './base/errors.ts';
export type { Address, Identity, Log, LogLevel, Role } from './base/ports.ts';
export {
  type ClusterMember,
  type ClusterSession,
  type ConnectOptions,
  type ItemResult,
  type Job,
  type JobFailure,
  type JobsListed,
  type PoolWanted,
  type PreparedJob,
  type SubmitOptions,
  connect,
  isJobFailure,
} from './client/index.ts';
export {
  type Callbacks,
  type CallOptions,
  type Calls,
  type Context,
  type FannedCalls,
  type MethodSpec,
  type Methods,
  type ModuleDefinition,
  type ModuleSpec,
  module,
  type NodeInfo,
  type PoolHandle,
  type PoolInfo,
  type Route,
  type State,
  type StateRange,
  type ThrownCode,
  type Timers,
} from './containers/module.ts';
export type { Incident, JobProgress, JobRow, JobView as JobShown, JobStatus } from './jobs/job-types.ts';
export type { ItemError, ItemFailure } from './jobs/report/item-failures.ts';
export type { WorkflowFailures } from './jobs/report/report-failures.ts';
export type { Report } from './jobs/report/report.ts';
export { kv } from './modules/kv/kv.ts';
export { type RunningNode, type StartHooks, startNode } from './node/boot/start-node.ts';
export { type NodeOptions, nodeOptions } from './node/options/options.ts';
export type {
  Check,
  DataContext,
  EachContext,
  FlowContext,
  From,
  Metrics,
  ItemRange as Range,
  SetupContext,
  StepContext,
  WorkflowDefinition,
} from './runner/definition/workflow-context.ts';
export type {
  HttpClient,
  HttpHeaders,
  HttpOptions,
  HttpRequestOptions,
  HttpResponse,
} from './runner/definition/http-types.ts';
export {
  type BatchSpec,
  type Duration,
  type FailurePolicy,
  type Flow,
  type FlowSpec,
  type ItemsOf,
  type LoadSpec,
  type StageSpec,
  type StepSpec,
  type Think,
  type Thresholds,
  workflow,
} from './runner/definition/workflow.ts';
