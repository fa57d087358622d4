/** The experiments by name, as `remuster sim --experiment NAME` runs them. */
import { fullLifeguardGrid, lifeguardExperiment } from './lifeguard.ts';
import { oneWayExperiment } from './one-way-links.ts';
import type { ExperimentReport, ExperimentContext } from './experiment-report.ts';
import { fullScaleSizes, scaleExperiment } from './scale.ts';

export const experiments: Readonly<Record<string, (tools: ExperimentContext) => ExperimentReport>> = {
  lifeguard: (tools) => lifeguardExperiment(fullLifeguardGrid, tools),
  'one-way': oneWayExperiment,
  scale: (tools) => scaleExperiment(fullScaleSizes, tools),
};
