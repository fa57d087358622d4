/**
 * Everything that a scenario file can name. A test may add to it; the product's own names stand here.
 */
import { groupFaults } from './consensus/faults.ts';
import { groupWorkloads } from './consensus/group.ts';
import { clientsSeeOneOrder } from './consensus/history.ts';
import { groupProperties } from './consensus/properties.ts';
import { controlled } from './controlled.ts';
import { controlledProperties } from './controlled-properties.ts';
import { counter } from './counter.ts';
import { type Fault, faults } from './faults.ts';
import { greetings, heartbeats } from './greetings.ts';
import { controlledFaults } from './controlled-faults.ts';
import { jobFaults } from './jobs/faults.ts';
import { jobProperties } from './jobs/job-properties.ts';
import { jobWorkloads } from './jobs/jobs.ts';
import { runProperties } from './jobs/run-properties.ts';
import { totalProperties } from './jobs/total-properties.ts';
import type { Property, Workload } from './observation.ts';
import { poolFaults } from './pools/faults.ts';
import { poolWorkloads } from './pools/pools.ts';
import { poolProperties } from './pools/properties.ts';
import { roundProperties } from './pools/round-properties.ts';
import { transfers } from './transfers.ts';
import {
  durableStaysDurable,
  everyRequestEndsOnce,
  livesDiffer,
  nobodyAliveIsBuried,
  nobodyHearsAForeignMessage,
  theBuriedStayBuried,
  transfersArriveWhole,
  viewsAgree,
  workGoesOn,
} from './properties.ts';

export type Registry = {
  readonly workloads: Readonly<Record<string, Workload>>;
  readonly faults: Readonly<Record<string, Fault>>;
  readonly properties: Readonly<Record<string, Property>>;
};

export const registry: Registry = {
  workloads: {
    ...groupWorkloads,
    ...poolWorkloads,
    ...jobWorkloads,
    controlled,
    counter,
    greetings,
    heartbeats,
    transfers,
  },
  faults: { ...faults, ...controlledFaults, ...groupFaults, ...poolFaults, ...jobFaults },
  properties: {
    ...groupProperties,
    ...controlledProperties,
    ...poolProperties,
    ...roundProperties,
    ...jobProperties,
    ...runProperties,
    ...totalProperties,
    clientsSeeOneOrder,
    durableStaysDurable,
    everyRequestEndsOnce,
    livesDiffer,
    nobodyAliveIsBuried,
    nobodyHearsAForeignMessage,
    theBuriedStayBuried,
    transfersArriveWhole,
    viewsAgree,
    workGoesOn,
  },
};
