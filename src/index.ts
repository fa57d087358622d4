/** The public door of the package: start a node, connect to a cluster, recognise an error. */
export { type ErrorCode, RemusterError, isRemusterError } from './base/errors.ts';
export type { Address, Identity, Log, LogLevel, Role } from './base/ports.ts';
export { type ClusterMember, type ClusterSession, type ConnectOptions, connect } from './client/index.ts';
export { type RunningNode, type StartHooks, startNode } from './node/compose.ts';
export { type NodeOptions, nodeOptions } from './node/options.ts';
