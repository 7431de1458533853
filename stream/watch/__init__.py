"""What operators see of a running application: its instances, threads, tasks, lags and stores."""
