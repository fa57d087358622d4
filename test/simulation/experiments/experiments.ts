/** The experiments by name, as `npm run sim -- --experiment NAME` runs them. */
import { fullLifeguardGrid, lifeguardExperiment } from './lifeguard.ts';
import { oneWayExperiment } from './one-way-links.ts';
import type { ExperimentReport, ExperimentContext } from './experiment-report.ts';
import { fullScaleSizes, scaleExperiment } from './scale.ts';

export const experiments: Readonly<Record<string, (context: ExperimentContext) => ExperimentReport>> = {
  lifeguard: (context) => lifeguardExperiment(fullLifeguardGrid, context),
  'one-way': oneWayExperiment,
  scale: (context) => scaleExperiment(fullScaleSizes, context),
};
