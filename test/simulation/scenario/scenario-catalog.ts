/** The catalogue of all workloads, faults and properties that a scenario file can name. */
import { groupFaults } from '../workloads/groups/group-faults.ts';
import { groupWorkloads } from '../workloads/groups/group-workload.ts';
import { historiesAreLinearizable } from '../workloads/groups/client-history.ts';
import { groupProperties } from '../workloads/groups/group-properties.ts';
import { controlPlaneWorkload } from '../workloads/nodes/control-plane-workload.ts';
import { controlPlaneProperties } from '../workloads/nodes/control-plane-properties.ts';
import { countingWorkload } from '../workloads/nodes/counter-workload.ts';
import { type Fault, commonFaults } from '../faults/common-faults.ts';
import { echoWorkload, pushEchoWorkload } from '../workloads/nodes/echo-workload.ts';
import { leaderFaults } from '../faults/leader-faults.ts';
import { jobFaults } from '../workloads/jobs/job-faults.ts';
import { jobProperties } from '../workloads/jobs/job-properties.ts';
import { jobWorkloads } from '../workloads/jobs/job-workload.ts';
import { unitProperties } from '../workloads/jobs/unit-properties.ts';
import { resultProperties } from '../workloads/jobs/result-properties.ts';
import type { Property, Workload } from '../checking/workload.ts';
import { poolFaults } from '../workloads/pools/pool-faults.ts';
import { poolWorkloads } from '../workloads/pools/pool-workload.ts';
import { poolProperties } from '../workloads/pools/pool-properties.ts';
import { recreationProperties } from '../workloads/pools/recreation-properties.ts';
import { transferWorkload } from '../workloads/nodes/transfer-workload.ts';
import {
  durableStaysDurable,
  everyRequestEndsOnce,
  generationsAreUnique,
  noFalseDeaths,
  noForeignMessages,
  deadStaysDead,
  transfersArriveComplete,
  viewsAgree,
  workResumes,
} from '../checking/node-properties.ts';

export type ScenarioCatalog = {
  readonly workloads: Readonly<Record<string, Workload>>;
  readonly faults: Readonly<Record<string, Fault>>;
  readonly properties: Readonly<Record<string, Property>>;
};

export const scenarioCatalog: ScenarioCatalog = {
  workloads: {
    ...groupWorkloads,
    ...poolWorkloads,
    ...jobWorkloads,
    controlPlane: controlPlaneWorkload,
    counter: countingWorkload,
    echo: echoWorkload,
    pushEcho: pushEchoWorkload,
    transfers: transferWorkload,
  },
  faults: { ...commonFaults, ...leaderFaults, ...groupFaults, ...poolFaults, ...jobFaults },
  properties: {
    ...groupProperties,
    ...controlPlaneProperties,
    ...poolProperties,
    ...recreationProperties,
    ...jobProperties,
    ...unitProperties,
    ...resultProperties,
    historiesAreLinearizable,
    durableStaysDurable,
    everyRequestEndsOnce,
    generationsAreUnique,
    noFalseDeaths,
    noForeignMessages,
    deadStaysDead,
    transfersArriveComplete,
    viewsAgree,
    workResumes,
  },
};
