module example.com/headrace/kuberay

go 1.24

require (
	github.com/ray-project/kuberay/ray-operator v1.5.0
	sigs.k8s.io/yaml v1.4.0
)
