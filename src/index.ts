/** The public door of the package: start a node, connect to a cluster, write a module, recognise an error. */
export { type ErrorCode, RemusterError, isRemusterError } from './base/errors.ts';
export type { Address, Identity, Log, LogLevel, Role } from './base/ports.ts';
export {
  type ClusterMember,
  type ClusterSession,
  type ConnectOptions,
  type PoolWanted,
  connect,
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
export { kv } from './modules/kv.ts';
export { type RunningNode, type StartHooks, startNode } from './node/compose.ts';
export { type NodeOptions, nodeOptions } from './node/options.ts';
